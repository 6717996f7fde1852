package enginetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// statistics tests Stats and CheckWrite.
var statistics = map[string]func(*harness){
	"Counts":     counts,
	"CheckWrite": checkWrite,
}

func counts(r *harness) {
	gate, began := make(chan struct{}), make(chan string, 1)
	var replayed atomic.Bool
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch {
		case e.ID == "runs":
			began <- e.ID
			return until(ctx, gate)
		case e.ID == "dies" && !replayed.Load():
			return webhook.Permanent(errDown)
		}
		return errDown
	}, slow)
	r.holds(inbox, engine.Stats{})

	first := patient("runs", "pa_1", 1)
	r.accept(inbox, first)
	receive(r, began)
	fails, dies := patient("fails", "pa_2", 2), patient("dies", "pa_3", 3)
	dies.ReceivedAt = dies.ReceivedAt.Add(-240 * time.Hour)
	r.accept(inbox, fails, dies)
	r.waitFor(webhook.ResultFailed, fails)
	r.waitFor(webhook.ResultDead, dies)
	r.holds(inbox, engine.Stats{Waiting: 1, Running: 1, Dead: 1, Oldest: first.ReceivedAt})

	close(gate)
	r.waitFor(webhook.ResultHandled, first)
	r.holds(inbox, engine.Stats{Waiting: 1, Dead: 1, Oldest: fails.ReceivedAt})
	replayed.Store(true)
	r.replay(inbox, dies)
	r.waitFor(webhook.ResultFailed, dies)
	r.holds(inbox, engine.Stats{Waiting: 2, Oldest: dies.ReceivedAt}) // the age survives a replay
}

// holds compares the counts of an engine. The oldest time may differ by Patience, because the
// clocks of machines differ.
func (r *harness) holds(inbox engine.Engine, want engine.Stats) {
	r.Helper()
	got, err := inbox.Stats(r.Context())
	require.NoError(r, err)
	assert.Equal(r, [3]int{want.Waiting, want.Running, want.Dead}, [3]int{got.Waiting, got.Running, got.Dead}, "waiting, running, dead")
	if want.Oldest.IsZero() {
		assert.Zero(r, got.Oldest)
	} else {
		assert.WithinDuration(r, want.Oldest, got.Oldest, r.storage.Patience)
	}
}

// checkWrite calls CheckWrite during accepts. It must succeed and change no event.
func checkWrite(r *harness) {
	all := numbered(20)
	for _, inbox := range r.openSeveral(fail) {
		accepted := make(chan struct{})
		go func() {
			defer close(accepted)
			r.accept(inbox, all...)
		}()
		for range 5 {
			assert.NoError(r, inbox.CheckWrite(r.Context()))
		}
		<-accepted
		r.waitFor(webhook.ResultDead, all...)
		require.NoError(r, inbox.CheckWrite(r.Context()))
		r.holds(inbox, engine.Stats{Dead: len(all)})
	}
}
