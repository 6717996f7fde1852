package enginetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// statistics tests what an engine says that it holds.
var statistics = map[string]func(*harness){
	"Counts":   counts,
	"Replayed": statsReplayed,
	"Ended":    statsEnded,

	"CheckWrite":      checkWrite,
	"CheckWriteEnded": checkWriteEnded,
}

func counts(r *harness) {
	gate, began := make(chan struct{}), make(chan string, 1)
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch e.ID {
		case "dies":
			return webhook.Permanent(errDown)
		case "fails":
			return errDown
		}
		began <- e.ID
		return until(ctx, gate)
	}, func(w *webhook.Work) { w.Retry.BackOff, w.Retry.MaxBackOff = time.Hour, time.Hour })
	r.holds(inbox, engine.Stats{})

	first := patient("runs", "pa_1", 1)
	r.accept(inbox, first)
	receive(r, began)
	fails, dies := patient("fails", "pa_2", 2), patient("dies", "pa_3", 3)
	r.accept(inbox, fails, dies)
	r.waitFor(webhook.ResultFailed, fails)
	r.waitFor(webhook.ResultDead, dies)
	r.holds(inbox, engine.Stats{Waiting: 1, Running: 1, Dead: 1, Oldest: first.ReceivedAt})

	r.discard(inbox, dies)
	close(gate)
	r.waitFor(webhook.ResultHandled, first)
	r.holds(inbox, engine.Stats{Waiting: 1, Oldest: fails.ReceivedAt})
}

// statsReplayed holds that an event which is replayed is as old as it was.
func statsReplayed(r *harness) {
	var replayed atomic.Bool
	inbox := r.open(func(context.Context, events.Event) error {
		if replayed.Load() {
			return errDown
		}
		return webhook.Permanent(errDown)
	}, func(w *webhook.Work) { w.Retry.BackOff, w.Retry.MaxBackOff = time.Hour, time.Hour })
	dies := patient("dies", "pa_1", 1)
	dies.ReceivedAt = dies.ReceivedAt.Add(-240 * time.Hour)
	r.accept(inbox, dies)
	r.waitFor(webhook.ResultDead, dies)
	r.holds(inbox, engine.Stats{Dead: 1})
	replayed.Store(true)
	r.replay(inbox, dies)
	r.waitFor(webhook.ResultFailed, dies)
	r.holds(inbox, engine.Stats{Waiting: 1, Oldest: dies.ReceivedAt})
}

// holds compares what an engine says that it holds. Clocks of machines differ.
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

func statsEnded(r *harness) {
	inbox := r.open(succeed)
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	_, err := inbox.Stats(ctx)
	require.Error(r, err, "an engine that does not answer is not empty")
	r.close(inbox)
	_, err = inbox.Stats(r.Context())
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
}

// checkWrite requires that a write check succeeds beside accepts and changes no event.
func checkWrite(r *harness) {
	inbox := r.open(func(context.Context, events.Event) error { return webhook.Permanent(errDown) })
	require.NoError(r, inbox.CheckWrite(r.Context()), "an empty engine accepts events")
	all := numbered(20)
	var checks sync.WaitGroup
	for range 4 {
		checks.Go(func() {
			for range 5 {
				assert.NoError(r, inbox.CheckWrite(r.Context()))
			}
		})
	}
	r.accept(inbox, all...)
	checks.Wait()
	r.waitFor(webhook.ResultDead, all...)
	require.NoError(r, inbox.CheckWrite(r.Context()))
	r.holds(inbox, engine.Stats{Dead: len(all)})
	counts, err := inbox.Count(r.Context(), engine.Filter{}, 0)
	require.NoError(r, err)
	assert.Equal(r, len(all), counts.Total)
	if r.storage.Shared {
		require.NoError(r, r.open(succeed).CheckWrite(r.Context()), "another process accepts events too")
	}
}

func checkWriteEnded(r *harness) {
	inbox := r.open(succeed)
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	require.Error(r, inbox.CheckWrite(ctx), "an engine that has not written does not report success")
	r.close(inbox)
	require.ErrorIs(r, inbox.CheckWrite(r.Context()), webhook.ErrInboxClosed)
}
