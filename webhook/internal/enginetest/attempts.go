package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// attempts tests when an engine passes an event to its [inboxkit.Worker]. The worker has its
// own tests.
var attempts = map[string]func(*harness){
	"Repeated":       repeated,
	"BoundedWorkers": boundedWorkers,
	"KeepsFailures":  keepsFailures,
	"HandledNow":     handledNow,
}

// repeated fails an event until its last attempt. An engine must retry it, and never too
// early.
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
		// A storage may store times in milliseconds.
		assert.GreaterOrEqual(r, begun[i+1].Sub(begun[i])+2*time.Millisecond, a.RetryIn, "retried too early")
	}
	require.NoError(r, made[maxAttempts-1].Err)
}

// boundedWorkers blocks all workers. An engine must not start another handler.
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
	// A correct engine passes with any duration.
	select {
	case <-begun:
		r.Error("handles more events at a time than it has workers")
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	r.waitFor(webhook.ResultHandled, all...)
}

// keepsFailures checks the last failures of an event after a restart, a replay and a returned
// attempt.
func keepsFailures(r *harness) {
	const all = inboxkit.KeptFailures + 2
	gate, begun := make(chan struct{}), make(chan struct{}, 2)
	var replayed atomic.Bool
	handle := func(ctx context.Context, _ events.Event) error {
		if !replayed.Load() {
			id := fmt.Sprint("r-", webhook.HandlingFrom(ctx).Attempt)
			return fmt.Errorf("%s: %w", canary, &api.Error{Operation: "orders.get", StatusCode: 503, RequestID: id})
		}
		begun <- struct{}{}
		if err := until(ctx, gate); err != nil {
			return err
		}
		return webhook.Permanent(errDown)
	}
	patiently := func(w *webhook.Work) { w.Retry.MaxAttempts = all }
	inbox, before := r.open(handle, patiently), time.Now()
	d := patient("evt_1", "pa_1", 1)
	die(r, inbox, d)
	kept := r.failures(inbox, d, 3, 4, 5, 6, 7)
	for n, f := range kept {
		a := r.of(d)[all-inboxkit.KeptFailures+n]
		assert.Equal(r, a.Reason(), f.Reason)
		assert.Equal(r, fmt.Sprint("r-", f.Attempt), f.RequestID)
		assert.GreaterOrEqual(r, f.Duration, time.Duration(0))
		assert.WithinRange(r, f.At, before.Add(-time.Second), time.Now().Add(time.Second))
	}
	if r.storage.Durable {
		r.close(inbox)
		inbox = r.open(handle, patiently)
	}
	replayed.Store(true)
	r.replay(inbox, d)
	receive(r, begun)
	running, err := inbox.List(r.Context(), only(d), engine.Page{Limit: 1})
	require.NoError(r, err)
	require.Len(r, running, 1)
	assert.Equal(r, []any{1, "", kept}, []any{running[0].Attempts, running[0].Reason, running[0].Failures})
	if r.storage.Durable {
		ended, cancel := context.WithCancel(r.Context())
		cancel()
		require.NoError(r, inbox.Close(ended))
		r.forget(inbox)
		inbox = r.open(handle, patiently)
		receive(r, begun)
	}
	close(gate)
	after := r.failures(inbox, d, 4, 5, 6, 7, 1)
	assert.Equal(r, kept[1:], after[:4])
	assert.Equal(r, "permanent: unnamed error: see webhook.WithReason", after[4].Reason)
	assert.Empty(r, after[4].RequestID)
}

// failures waits until an engine lists failures with these attempt numbers for an event, and
// returns them. The engine may record them a moment after it has reported the attempt.
func (r *harness) failures(inbox engine.Engine, d webhook.Delivery, attempts ...int) (kept []engine.Failure) {
	r.Helper()
	require.Eventually(r, func() bool {
		found, err := inbox.List(r.Context(), only(d), engine.Page{Limit: 1})
		if err != nil || len(found) != 1 {
			return false
		}
		kept = found[0].Failures
		return slices.EqualFunc(kept, attempts, func(f engine.Failure, n int) bool { return f.Attempt == n })
	}, r.storage.Patience, time.Millisecond, "failures of attempts %v", attempts)
	return kept
}

// handledNow calls HandleNow for some of many waiting events, next to a dead letter and a
// running event.
func handledNow(r *harness) {
	const failing, most = 130, 120 // more than a batch
	var repaired atomic.Bool
	gate, begun := make(chan struct{}), make(chan struct{}, 1)
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch {
		case e.ID == "runs":
			begun <- struct{}{}
			return until(ctx, gate)
		case repaired.Load():
			return nil
		case e.ID == "dies":
			return webhook.Permanent(errDown)
		}
		return errDown
	}, slow, func(w *webhook.Work) { w.Workers = 4 })
	all, runs, dies := numbered(failing), patient("runs", "pa_runs", 1), patient("dies", "pa_dies", 1)
	die(r, inbox, dies)
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultFailed, all...)
	r.accept(inbox, runs)
	receive(r, begun)
	waiting := engine.Filter{States: []engine.State{engine.StateWaiting}}
	counts, err := inbox.Count(r.Context(), waiting, most)
	require.NoError(r, err)
	require.Equal(r, most, counts.Total)
	selected := map[webhook.Key]bool{}
	for _, e := range r.pages(inbox, engine.Filter{States: waiting.States, Until: counts.Until}, engine.Page{Limit: 100}) {
		selected[e.Key] = true
	}

	repaired.Store(true)
	for _, f := range []engine.Filter{
		{Until: counts.Until, States: dead.States},
		{Until: counts.Until, ClinicID: "cl_other"},
		only(runs, dies, patient("unknown", "pa_1", 1)),
	} {
		n, err := inbox.HandleNow(r.Context(), f)
		require.NoError(r, err)
		assert.Zero(r, n)
	}
	var changed atomic.Int64
	together(3, func(int) {
		n, err := inbox.HandleNow(r.Context(), engine.Filter{Until: counts.Until})
		assert.NoError(r, err)
		changed.Add(int64(n))
	})
	assert.EqualValues(r, most, changed.Load(), "each event counts once")
	close(gate)
	r.waitFor(webhook.ResultHandled, runs)
	for _, d := range all {
		if want := []webhook.Result{webhook.ResultFailed}; !selected[d.Key] {
			assert.Equal(r, want, r.results(d))
			continue
		}
		r.waitFor(webhook.ResultHandled, d)
		assert.Equal(r, 2, r.of(d)[1].Number, "HandleNow keeps the number of attempts")
	}
	assert.Len(r, r.of(runs), 1)
	assert.Len(r, r.of(dies), 1)
	r.holds(inbox, engine.Stats{Waiting: failing - most, Dead: 1, Oldest: runs.ReceivedAt})
}
