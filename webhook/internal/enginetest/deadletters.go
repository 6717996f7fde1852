package enginetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// deadLetters tests the calls of an operator.
var deadLetters = map[string]func(*harness){
	"Listed":   listed,
	"Replayed": replayed,
	"InPlace":  replayedInPlace,
	"Bulk":     bulk,
	"Counted":  recounted,
}

func listed(r *harness) {
	inbox := r.open(fail)
	require.Empty(r, r.deadLetters(inbox))
	before := time.Now()
	all := numbered(3)
	die(r, inbox, all[2], all[0], all[1])
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 3)
	for i, want := range []webhook.Delivery{all[2], all[0], all[1]} {
		got := deadLetters[i]
		r.same(want, got.Delivery) // oldest first
		assert.Equal(r, maxAttempts, got.Attempts)
		assert.Equal(r, errDown.Error(), got.Err.Error())
		assert.Equal(r, "unnamed error: see webhook.WithReason", got.Reason)
		assert.WithinRange(r, got.Position.At, before.Add(-time.Second), time.Now().Add(time.Second))
	}
}

// replayed replays one of two dead letters twice, and discards the other one.
func replayed(r *harness) {
	var repaired atomic.Bool
	inbox := r.open(unless(&repaired, errDown))
	all := numbered(2)
	d := all[0]
	die(r, inbox, all...)
	r.replay(inbox, d)
	r.waitAttempts(2*maxAttempts, d)
	again := r.of(d)
	assert.Equal(r, 1, again[maxAttempts].Number, "attempts restart at 1")
	assert.Equal(r, webhook.ResultDead, again[2*maxAttempts-1].Result)
	require.Len(r, r.deadLetters(inbox), 2)

	repaired.Store(true)
	r.replay(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	assert.Equal(r, all[1].Key, deadLetters[0].Key)
	r.discard(inbox, all[1])
	require.Empty(r, r.deadLetters(inbox))
	r.unchanged(inbox, all...)
	assert.Len(r, r.of(all[1]), maxAttempts)
}

// unchanged requires that Replay, Discard and HandleNow ignore these events: none of them is a
// dead letter or waits for a retry.
func (r *harness) unchanged(inbox engine.Engine, deliveries ...webhook.Delivery) {
	r.Helper()
	for _, d := range deliveries {
		for _, change := range []func(context.Context, engine.Filter) (int, error){inbox.Replay, inbox.Discard, inbox.HandleNow} {
			n, err := change(r.Context(), only(d))
			require.NoError(r, err)
			require.Zero(r, n, "%s", d)
		}
	}
}

// replayedInPlace creates dead letters of one patient out of order, with enough others between
// them that a replay needs more than one transaction. The replay must handle them in order,
// and before a waiting event.
func replayedInPlace(r *harness) {
	r.need(r.storage.Ordered, "Ordered")
	const others = 150
	var repaired atomic.Bool
	gate, begun := make(chan struct{}), make(chan struct{}, 1)
	log := newJournal()
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		switch {
		case !repaired.Load():
			return webhook.Permanent(errDown)
		case e.ID == "runs":
			begun <- struct{}{}
			return until(ctx, gate)
		}
		log.begin(e.ClinicID)
		log.end(e.ClinicID, e.ID, !strings.HasPrefix(e.ID, "other"))
		return nil
	}, byObject)
	place := func(id string, n int) webhook.Delivery { return patient(id, "pa_1", n) }
	first, second, third := place("first", 1), place("second", 2), place("third", 3)
	between := make([]webhook.Delivery, others)
	for n := range between {
		between[n] = patient(fmt.Sprint("other_", n), fmt.Sprint("pa_other_", n), 10)
	}
	die(r, inbox, third)
	r.accept(inbox, between...)
	r.waitFor(webhook.ResultDead, between...)
	die(r, inbox, second, first)
	counts, err := inbox.Count(r.Context(), dead, 0)
	require.NoError(r, err)

	repaired.Store(true)
	runs, waits := place("runs", 4), place("waits", 5)
	r.accept(inbox, runs)
	receive(r, begun)
	r.accept(inbox, waits)
	n, err := inbox.Replay(r.Context(), engine.Filter{Until: counts.Until})
	require.NoError(r, err)
	require.Equal(r, others+3, n)
	close(gate)
	r.waitFor(webhook.ResultHandled, append(between[:others:others], runs, first, second, third, waits)...)
	assert.Equal(r, []string{"first", "second", "third", "waits"}, log.order["cl_1"])
}

// bulk replays a limited number of matching dead letters. The engine must handle each once
// more, even if it becomes a dead letter again.
func bulk(r *harness) {
	const others, matching, most = 30, 320, 270
	var repaired atomic.Bool
	inbox := r.open(func(_ context.Context, e events.Event) error {
		if repaired.Load() && !strings.HasSuffix(e.ID, "7") {
			return nil
		}
		return webhook.Permanent(errDown)
	})
	all := numbered(others + matching)
	for n := range all[:others] {
		all[n].ClinicID = "cl_other"
	}
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultDead, all...)
	f := engine.Filter{ClinicID: "cl_1"}
	counts, err := inbox.Count(r.Context(), f, most)
	require.NoError(r, err)
	require.Equal(r, most, counts.Total)
	f.Until = counts.Until
	selected := map[webhook.Key]bool{}
	for _, e := range r.pages(inbox, f, engine.Page{Limit: 100}) {
		selected[e.Key] = true
	}
	require.Len(r, selected, most)

	repaired.Store(true)
	n, err := inbox.Replay(r.Context(), f)
	require.NoError(r, err)
	assert.Equal(r, most, n)
	r.eventually("another attempt of each event", func() bool { return len(r.attempts) >= len(all)+most })
	for _, change := range []func(context.Context, engine.Filter) (int, error){inbox.Replay, inbox.Discard} {
		n, err = change(r.Context(), f)
		require.NoError(r, err)
		assert.Zero(r, n, "new dead letters are beyond Until")
	}
	diedAgain := 0
	for _, d := range all {
		want := []webhook.Result{webhook.ResultDead}
		if selected[d.Key] && strings.HasSuffix(d.Key.EventID, "7") {
			want = append(want, webhook.ResultDead)
			diedAgain++
		} else if selected[d.Key] {
			want = append(want, webhook.ResultHandled)
		}
		assert.Equal(r, want, r.results(d), "%s", d)
	}
	r.holds(inbox, engine.Stats{Dead: len(all) - most + diedAgain})
}

// recounted checks the counts while the number of dead letters changes.
func recounted(r *harness) {
	inbox := r.open(dieAtOnce)
	all := numbered(7)
	for n := range all {
		all[n].ClinicID = fmt.Sprint("cl_", n%2)
		all[n].ReceivedAt = all[n].ReceivedAt.Add(-time.Duration(n) * time.Hour)
	}
	check := func(n int) {
		for _, f := range []engine.Filter{dead, {ClinicID: "cl_0"}, {ID: "evt_1", States: dead.States}} {
			r.counts(inbox, f, 0, r.pages(inbox, f, engine.Page{Limit: 100}))
		}
		r.holds(inbox, engine.Stats{Dead: n})
	}
	die(r, inbox, all...)
	check(7)
	r.replay(inbox, all[0], all[3])
	r.waitAttempts(2, all[0])
	r.waitAttempts(2, all[3])
	check(7)
	r.discard(inbox, all[1], all[6])
	check(5)
	r.discard(inbox, all[0], all[2], all[4], all[5], all[3])
	check(0)
}
