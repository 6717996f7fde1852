package enginetest

import (
	"context"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// handledNow makes some of many events due that wait for a retry, next to a dead letter and one
// that runs.
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
	for _, e := range r.pages(inbox, engine.Filter{States: waiting.States, Until: counts.Until}, 100) {
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
	assert.EqualValues(r, most, changed.Load(), "each counts once")
	close(gate)
	r.waitFor(webhook.ResultHandled, runs)
	for _, d := range all {
		if want := []webhook.Result{webhook.ResultFailed}; !selected[d.Key] {
			assert.Equal(r, want, r.results(d))
			continue
		}
		r.waitFor(webhook.ResultHandled, d)
		assert.Equal(r, 2, r.of(d)[1].Number, "attempts stay counted")
	}
	assert.Len(r, r.of(runs), 1)
	assert.Len(r, r.of(dies), 1)
	r.holds(inbox, engine.Stats{Waiting: failing - most, Dead: 1, Oldest: runs.ReceivedAt})
}

// headHandledNow requires that only the event is changed that holds up its ordering key.
func headHandledNow(r *harness) {
	var repaired atomic.Bool
	log := newJournal()
	inbox := r.open(func(_ context.Context, e events.Event) error {
		if !repaired.Load() {
			return errDown
		}
		log.begin("pa_1")
		log.end("pa_1", e.ID, true)
		return nil
	}, byObject, slow)
	fails, second, third := patient("fails", "pa_1", 1), patient("second", "pa_1", 2), patient("third", "pa_1", 3)
	r.accept(inbox, fails)
	r.waitFor(webhook.ResultFailed, fails)
	r.accept(inbox, second, third)
	repaired.Store(true)
	n, err := inbox.HandleNow(r.Context(), only(second, third))
	require.NoError(r, err)
	require.Zero(r, n, "they wait for another one only")
	require.Len(r, r.of(fails), 1)
	r.holds(inbox, engine.Stats{Waiting: 3, Oldest: fails.ReceivedAt})
	n, err = inbox.HandleNow(r.Context(), only(third, second, fails))
	require.NoError(r, err)
	require.Equal(r, 1, n)
	r.waitFor(webhook.ResultHandled, fails, second, third)
	assert.Equal(r, []string{"fails", "second", "third"}, log.order["pa_1"])
	assert.Equal(r, 2, r.of(fails)[1].Number)
}
