package receivercheck_test

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
)

// Examine a typical first version of a receiver. In a test, use [receivercheck.Run], which runs
// each case as a subtest.
func ExampleExamine() {
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("SVC-Signature") == "" {
			w.WriteHeader(http.StatusGone)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // decode the event here
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"challenge":"the challenge token"}`)
	})
	verdicts, err := receivercheck.Examine(context.Background(), receivercheck.Target{
		Handler: naive, Secret: "the webhook secret", Challenge: "the challenge token",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range verdicts {
		if v.Failed() {
			fmt.Println(v.Case)
		}
	}
	// Output:
	// Signature/RawBytes
	// Signature/Forged
	// Signature/Malformed
	// Signature/Stale
	// Signature/Future
	// Signature/TwoSignatures
	// Challenge/OnlyPost
	// Bodies/Malformed
	// Bodies/Limit
	// Always/NeverGone
	// Always/TellsNothing
}
