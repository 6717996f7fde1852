package receivercheck_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/receivercheck"
)

// toTheLetter is a receiver by hand that takes what the API documents,
// {"event":{…}}, and the empty test call, and refuses everything else.
func toTheLetter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
	var sent struct {
		Event struct{ ID, Type string }
	}
	switch {
	case err != nil:
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	case !anyFresh(r.Header.Get("SVC-Signature"), body):
		w.WriteHeader(http.StatusUnauthorized)
		return
	case len(body) > 0 && (!bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || json.Unmarshal(body, &sent) != nil || sent.Event.ID == "" || sent.Event.Type == ""):
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"challenge":"`+challengeToken+`"}`)
}

func TestReceiverToTheLetterPasses(t *testing.T) {
	t.Parallel()
	verdicts, err := receivercheck.Examine(t.Context(), receivercheck.Target{
		Handler: http.HandlerFunc(toTheLetter), Secret: webhookSecret, Challenge: challengeToken, Timing: receivercheck.Timing{Timeout: patient},
	})
	require.NoError(t, err)
	skipped := map[string]string{}
	for _, v := range verdicts {
		assert.False(t, v.Failed(), "%s", v)
		skipped[v.Case] = v.Skipped
	}
	for _, envelope := range []string{"Events/Payload", "Events/Bare"} {
		assert.Contains(t, skipped[envelope], "Target.Features.OtherEnvelopes")
	}
}
