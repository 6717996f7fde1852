package enginetest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// attempts plays the side that handlers see.
var attempts = map[string]func(*harness){
	"Repeated":         repeated,
	"EveryFailure":     everyFailure,
	"Permanent":        permanent,
	"TellsTheHandler":  tellsTheHandler,
	"BoundedWorkers":   boundedWorkers,
	"OthersGoOn":       othersGoOn,
	"SurvivesObserver": survivesObserver,
}

var errDown = errors.New("down: " + canary)

// repeated holds that a failed attempt is made again, not before its time, and
// that success ends it.
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

func everyFailure(r *harness) {
	for name, c := range map[string]struct {
		handle  webhook.HandlerFunc
		timeout time.Duration
		err     error
	}{
		"error":  {func(context.Context, events.Event) error { return errDown }, r.storage.Patience, errDown},
		"panic":  {func(context.Context, events.Event) error { panic(canary) }, r.storage.Patience, webhook.ErrPanic},
		"goexit": {func(context.Context, events.Event) error { runtime.Goexit(); return nil }, r.storage.Patience, webhook.ErrPanic},
		"slow": {func(ctx context.Context, _ events.Event) error {
			<-ctx.Done()
			return ctx.Err()
		}, 20 * time.Millisecond, context.DeadlineExceeded},
	} {
		d := patient(name, "pa_1", 1)
		inbox := r.open(c.handle, func(w *webhook.Work) { w.Workers, w.HandlerTimeout = 1, c.timeout })
		r.accept(inbox, d)
		r.waitFor(webhook.ResultDead, d)
		require.Equal(r, []webhook.Result{webhook.ResultFailed, webhook.ResultFailed, webhook.ResultDead}, r.results(d), name)
		require.ErrorIs(r, r.of(d)[0].Err, c.err, name)
		assert.NotContains(r, r.of(d)[0].Reason(), canary)
		r.close(inbox)
	}
}

func permanent(r *harness) {
	inbox := r.open(func(context.Context, events.Event) error { return webhook.Permanent(errDown) })
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	r.waitFor(webhook.ResultDead, d)
	require.Len(r, r.of(d), 1)
	require.ErrorIs(r, r.of(d)[0].Err, errDown)
}

func tellsTheHandler(r *harness) {
	seen := make(chan webhook.Handling, maxAttempts)
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		h := webhook.HandlingFrom(ctx)
		seen <- h
		assert.Equal(r, h.Key.EventID, e.ID)
		assert.Equal(r, "in_1", e.IntegrationID, "from the key")
		assert.Equal(r, api.PriorityEvent, api.PriorityOf(ctx), "of the handler's requests")
		if h.Attempt == 1 {
			return errDown
		}
		return nil
	})
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	for n := range 2 {
		assert.Equal(r, webhook.Handling{Key: d.Key, Attempt: n + 1}, receive(r, seen))
	}
	r.waitFor(webhook.ResultHandled, d)
}

// boundedWorkers holds that an engine handles as many events at a time as it was
// told, and no more.
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
	// That something does not happen can only be seen by waiting for it. A
	// correct engine passes whatever the length.
	select {
	case <-begun:
		r.Error("more events are handled at a time than there are workers")
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	r.waitFor(webhook.ResultHandled, all...)
}

// othersGoOn holds that an event that fails keeps no other from being handled.
func othersGoOn(r *harness) {
	inbox := r.open(failFor("evt_0", errDown), func(w *webhook.Work) {
		w.Workers, w.Retry.BackOff, w.Retry.MaxBackOff = 1, time.Hour, time.Hour
	})
	all := numbered(10)
	r.accept(inbox, all[0])
	r.waitFor(webhook.ResultFailed, all[0])
	r.accept(inbox, all[1:]...)
	r.waitFor(webhook.ResultHandled, all[1:]...)
	assert.Equal(r, []webhook.Result{webhook.ResultFailed}, r.results(all[0]))
}

func survivesObserver(r *harness) {
	var told atomic.Int32
	inbox := r.open(succeed, func(w *webhook.Work) {
		observe := w.Observer.AttemptEnd
		w.Observer.AttemptEnd = func(ctx context.Context, a webhook.Attempt) {
			told.Add(1) // first: what waits for the attempt will count
			observe(ctx, a)
			panic(canary)
		}
	})
	all := numbered(10)
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultHandled, all...)
	r.close(inbox)
	assert.EqualValues(r, len(all), told.Load())
}
