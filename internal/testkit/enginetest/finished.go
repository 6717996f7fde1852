package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// finished looks up handled, skipped, discarded, stored and unknown events. Most share an
// event ID, and the other IDs resemble it.
func finished(r *harness) {
	const id = "evt/%1 _é"
	gate := make(chan struct{})
	release := sync.OnceFunc(func() { close(gate) })
	defer release()
	before := time.Now().Add(-time.Second)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		switch name, _, _ := strings.Cut(webhook.HandlingFrom(ctx).Key.IntegrationID, " "); name {
		case "dies":
			return webhook.Permanent(errDown)
		case "fails":
			return errDown
		case "runs":
			return until(ctx, gate)
		}
		return nil
	}, slow)
	of := func(id string, e api.Environment, integrationID string) webhook.Delivery {
		d := integration(patient(id, "pa_"+id+integrationID, 1), integrationID)
		d.Key.Environment = e
		return d
	}
	handled := []webhook.Delivery{of(id, usSandbox, "handled/0 %"), of(id, api.USProduction, ""), of(id, caSandbox, "in_1")}
	gone := []webhook.Delivery{of(id, usSandbox, "dies 1"), of(id, api.CanadaProduction, "dies 1")}
	dead, fails, runs := of(id, usSandbox, "dies 2"), of(id, usSandbox, "fails"), of(id, usSandbox, "runs")
	others := []webhook.Delivery{of("evt", usSandbox, "%1 _é"), of(id+"1", usSandbox, "1"), of("EVT/%1 _é", usSandbox, "1"), of("evt/%1 xé", usSandbox, "1")}
	r.accept(inbox, runs, fails, dead)
	r.accept(inbox, slices.Concat(handled, gone, others)...)
	r.waitFor(webhook.ResultHandled, append(handled, others...)...)
	r.waitFor(webhook.ResultFailed, fails)
	r.waitFor(webhook.ResultDead, append(gone, dead)...)
	r.ends(inbox, id, before, len(handled), 0)
	r.discard(inbox, gone...)
	r.ends(inbox, id, before, len(handled), len(gone))
	for _, d := range others {
		r.ends(inbox, d.Key.EventID, before, 1, 0)
	}
	for _, unknown := range []string{"", "evt/%1 _", "%", "never"} {
		r.ends(inbox, unknown, before, 0, 0)
	}
	r.discard(inbox, dead)
	release()
	r.waitFor(webhook.ResultHandled, runs)
	r.ends(inbox, id, before, len(handled)+1, len(gone)+1)
}

// ends compares the numbers of handled and discarded events for an ID.
func (r *harness) ends(inbox engine.Engine, eventID string, from time.Time, handled, discarded int) {
	r.Helper()
	all, err := inbox.Finished(r.Context(), eventID)
	require.NoError(r, err)
	n := 0
	for _, f := range all {
		if f.Discarded {
			n++
		}
		if !f.At.IsZero() {
			assert.WithinRange(r, f.At, from, time.Now().Add(time.Second))
			assert.Equal(r, time.UTC, f.At.Location())
		}
	}
	assert.Equal(r, fmt.Sprint(handled, discarded), fmt.Sprint(len(all)-n, n), "handled and discarded of %q", eventID)
}
