package inboxtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// sealing plays somebody who reads the storage.
var sealing = map[string]func(*rig){"AtRest": sealedAtRest}

// sealedAtRest looks for patient data while events wait, are handled, have
// failed, are dead letters, and are done.
func sealedAtRest(r *rig) {
	r.need(r.storage.Dump != nil, "Dump")
	gate := make(chan struct{})
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch e.ID {
		case "fails":
			return errDown
		case "dies":
			return webhook.Permanent(errDown)
		case "panics":
			panic(canary)
		case "waits":
			return until(ctx, gate)
		}
		return nil
	}, func(w *webhook.Work) {
		w.Retry.BackOff, w.Retry.MaxBackOff = time.Hour, time.Hour
		if r.storage.Ordered {
			w.Order, w.Stale = webhook.ByPatient, webhook.StaleReport
		}
	})
	of := func(id string) webhook.Delivery { return patient(id, id+canary, 1) }
	r.accept(inbox, of("waits"), of("fails"), of("panics"), of("dies"), of("done"))
	r.waitFor(webhook.ResultFailed, of("fails"), of("panics"))
	r.waitFor(webhook.ResultDead, of("dies"))
	r.waitFor(webhook.ResultHandled, of("done"))
	r.search("while events wait")
	close(gate)
	r.waitFor(webhook.ResultHandled, of("waits"))
	require.NoError(r, inbox.Replay(r.Context(), of("dies").Key))
	r.search("when they are done")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		assert.NotContains(r, fmt.Sprintf("%v %+v %#v %s", a, a, a, a.Reason()), canary)
	}
}

// search looks for the canary in everything that is stored, as it is and in the
// usual encodings.
func (r *rig) search(when string) {
	r.Helper()
	stored := r.storage.Dump(r.T)
	require.NotEmpty(r, stored)
	forms := []string{canary, hex.EncodeToString([]byte(canary))}
	for skip := range 3 { // a base64 text depends on where in three bytes it begins
		text := base64.RawStdEncoding.EncodeToString([]byte(canary[skip:]))
		forms = append(forms, text[:len(text)-2])
	}
	lower := bytes.ToLower(stored)
	for _, form := range forms {
		assert.False(r, bytes.Contains(lower, bytes.ToLower([]byte(form))), "patient data is stored %s, as %q", when, form)
	}
}
