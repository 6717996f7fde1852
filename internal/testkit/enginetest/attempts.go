package enginetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// attempts tests when an engine gives an event to its [engine.Worker]. The worker has tests
// of its own.
var attempts = map[string]func(*harness){
	"Repeated":       repeated,
	"BoundedWorkers": boundedWorkers,
	"KeepsFailures":  keepsFailures,
	"HandledNow":     handledNow,
}

var errDown = errors.New("down: " + canary)

// repeated requires that an engine repeats a failed attempt, not before its time, until it
// succeeds.
func repeated(r *harness) {
	var mu sync.Mutex
	var begun []time.Time
	inbox := r.open(func(context.Context, events.Event) error {
		mu.Lock()
		defer mu.Unlock()
		begun = append(begun, time.Now())
		if len(begun) < maxAttempts {
			return errDown
		}
		return nil
	}, func(w *webhook.Work) { w.Retry.BackOff, w.Retry.MaxBackOff = 40*time.Millisecond, 80*time.Millisecond })
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
	made := r.of(d)
	require.Equal(r, []webhook.Result{webhook.ResultFailed, webhook.ResultFailed, webhook.ResultHandled}, r.results(d))
	for i, a := range made[:maxAttempts-1] {
		assert.Equal(r, i+1, a.Number)
		require.ErrorIs(r, a.Err, errDown)
		most := 40 * time.Millisecond << i
		assert.LessOrEqual(r, a.RetryIn, most)
		assert.GreaterOrEqual(r, a.RetryIn, most/2)
		// Storages may keep time to the millisecond only.
		assert.GreaterOrEqual(r, begun[i+1].Sub(begun[i])+2*time.Millisecond, a.RetryIn, "begun before its time")
	}
	require.NoError(r, made[maxAttempts-1].Err)
}

// boundedWorkers requires that an engine handles as many events at a time as it has workers.
func boundedWorkers(r *harness) {
	const workers = 3
	gate, begun := make(chan struct{}), make(chan struct{}, 20)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		begun <- struct{}{}
		return until(ctx, gate)
	}, func(w *webhook.Work) { w.Workers = workers })
	all := numbered(20)
	r.accept(inbox, all...)
	for range workers {
		receive(r, begun)
	}
	// A correct engine passes whatever the length of the wait.
	select {
	case <-begun:
		r.Error("more events are handled at a time than there are workers")
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	r.waitFor(webhook.ResultHandled, all...)
}
