package dispensary_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// A logger receives every attempt, and never an address, a body or a token.
func ExampleWithLogger() {
	platform := fake()
	defer platform.Close()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: stable})
	client := platform.Client(model.User{}, dispensary.WithLogger(slog.New(handler)))

	_, err := client.Clinic.Patients.Search(context.Background(), clinic.PatientSearchOptions{Query: "jane doe"})
	if err != nil {
		log.Fatal(err)
	}
	// Output: level=DEBUG msg="dispensary request" operation=patients.search method=GET route=/clinic/search/patients environment=us/sandbox attempt=1 status=200
}

// stable leaves out what differs from run to run.
func stable(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "duration", "request_id":
		return slog.Attr{}
	}
	return a
}

// An observer counts what it likes: here how often requests are sent again, and
// why. Package otel, a separate module, makes spans and metrics of the same.
func ExampleWithObserver() {
	platform := fake()
	defer platform.Close()
	platform.Fault(model.Fault{Effect: model.ErrorStatus, Status: 503, Times: 1})
	client := platform.Client(model.User{}, dispensary.WithRetryPolicy(dispensary.RetryPolicy{MinWait: time.Millisecond}),
		dispensary.WithObserver(dispensary.Observer{
			AttemptEnd: func(_ context.Context, a observe.AttemptResult) {
				fmt.Printf("%s %d %s%s\n", a.Operation, a.Number, a.Retry, a.Failure)
			},
			CallEnd: func(_ context.Context, c observe.CallResult) {
				fmt.Println(c.Operation, "ended with", c.StatusCode, "after", c.Attempts, "attempts")
			},
		}))
	if _, err := client.Clinic.Get(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// clinic.get 1 status
	// clinic.get 2 server
	// clinic.get ended with 200 after 2 attempts
}
