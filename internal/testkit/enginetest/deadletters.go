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

// deadLetters tests the side that operators see.
var deadLetters = map[string]func(*harness){
	"Listed":    listed,
	"Replayed":  replayed,
	"Discarded": discarded,
	"Many":      manyLetters,
	"Refused":   refusedLetters,
	"InPlace":   replayedInPlace,
}

// die makes dead letters, one after the other.
func die(r *harness, inbox engine.Engine, deliveries ...webhook.Delivery) {
	r.Helper()
	for _, d := range deliveries {
		r.accept(inbox, d)
		r.waitFor(webhook.ResultDead, d)
	}
}

func fail(context.Context, events.Event) error { return errDown }

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
		assert.Equal(r, want.Key, got.Key, "the oldest first")
		assert.Equal(r, want.Type, got.Type)
		assert.Equal(r, want.ClinicID, got.ClinicID)
		assert.Equal(r, string(want.Body), string(got.Body))
		assert.Equal(r, maxAttempts, got.Attempts)
		assert.Equal(r, errDown.Error(), got.Err.Error())
		assert.Equal(r, "unnamed error: see webhook.WithReason", got.Reason)
		assert.WithinRange(r, got.Position.At, before.Add(-time.Second), time.Now().Add(time.Second))
	}
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	_, err := inbox.List(ctx, dead, engine.Position{}, 1)
	require.Error(r, err)
	_, err = inbox.Count(ctx, dead, 0)
	require.Error(r, err)
	_, err = inbox.Open(ctx, all[0].Key)
	require.Error(r, err)
}

func replayed(r *harness) {
	var repaired atomic.Bool
	inbox := r.open(func(context.Context, events.Event) error {
		if repaired.Load() {
			return nil
		}
		return errDown
	})
	d := patient("evt_1", "pa_1", 1)
	die(r, inbox, d)
	r.replay(inbox, d)
	r.wait("the second death", func([]webhook.Attempt) bool { return len(r.ofLocked(d)) == 2*maxAttempts })
	again := r.of(d)
	assert.Equal(r, 1, again[maxAttempts].Number, "attempts count anew")
	assert.Equal(r, webhook.ResultDead, again[2*maxAttempts-1].Result)
	require.Len(r, r.deadLetters(inbox), 1)

	repaired.Store(true)
	r.replay(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
	require.Empty(r, r.deadLetters(inbox))
	r.unchanged(inbox, d)
	require.Zero(r, r.accept(inbox, d))
}

func discarded(r *harness) {
	inbox := r.open(fail)
	all := numbered(2)
	die(r, inbox, all...)
	r.discard(inbox, all[0])
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	assert.Equal(r, all[1].Key, deadLetters[0].Key)
	r.unchanged(inbox, all[0])
	require.Zero(r, r.accept(inbox, all[0]))
	assert.Len(r, r.of(all[0]), maxAttempts)
}

// manyLetters replays and discards while it lists: more than one page of them.
func manyLetters(r *harness) {
	var repaired atomic.Bool
	inbox := r.open(func(context.Context, events.Event) error {
		if repaired.Load() {
			return nil
		}
		return webhook.Permanent(errDown)
	})
	all := numbered(250)
	r.accept(inbox, all...)
	r.waitFor(webhook.ResultDead, all...)
	require.Len(r, r.deadLetters(inbox), len(all))
	repaired.Store(true)
	kept, n := []webhook.Delivery{}, 0
	for deadLetter, err := range engine.All(r.Context(), inbox, dead) {
		require.NoError(r, err)
		if n++; n%2 == 0 {
			r.discard(inbox, deadLetter.Delivery)
			continue
		}
		r.replay(inbox, deadLetter.Delivery)
		kept = append(kept, deadLetter.Delivery)
	}
	assert.Equal(r, len(all), n, "every letter once")
	r.waitFor(webhook.ResultHandled, kept...)
	require.Empty(r, r.deadLetters(inbox))
}

// refusedLetters holds that only dead letters can be replayed or discarded.
func refusedLetters(r *harness) {
	gate, begun := make(chan struct{}), make(chan struct{}, 1)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		begun <- struct{}{}
		return until(ctx, gate)
	}, func(w *webhook.Work) { w.Workers = 1 })
	all := numbered(2)
	r.accept(inbox, all...)
	receive(r, begun)
	unknown := patient("evt_unknown", "pa_1", 1)
	r.unchanged(inbox, all[0], all[1], unknown, integration(all[0], "in_2"))
	close(gate)
	receive(r, begun)
	r.waitFor(webhook.ResultHandled, all...)
	r.unchanged(inbox, all...)
	for _, d := range all {
		assert.Len(r, r.of(d), 1)
	}
}

// unchanged holds that nothing can be replayed or discarded of what is no dead letter.
func (r *harness) unchanged(inbox engine.Engine, deliveries ...webhook.Delivery) {
	r.Helper()
	for _, d := range deliveries {
		for _, change := range []func(context.Context, engine.Filter) (int, error){inbox.Replay, inbox.Discard} {
			n, err := change(r.Context(), only(d))
			require.NoError(r, err)
			require.Zero(r, n, "%s", d)
		}
	}
}

// replayedInPlace has the events of a patient die in another order than theirs, and so many
// others between them that all are not replayed in one transaction. Replayed, they are
// handled in their order, also where the replay is broken off, and before one that waits.
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
		log.end(e.ClinicID, e.ID, true)
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
	require.Equal(r, others+3, counts.Total)

	repaired.Store(true)
	runs, waits := place("runs", 4), place("waits", 5)
	r.accept(inbox, runs)
	receive(r, begun)
	r.accept(inbox, waits)
	total := 0
	for looks := int32(1); total < others+3; looks++ {
		n, err := inbox.Replay(newEndsAfter(r.Context(), looks), engine.Filter{Until: counts.Until})
		if total += n; err != nil {
			require.ErrorIs(r, err, context.Canceled)
		}
		if n > 0 && total == n {
			close(gate)
			r.waitFor(webhook.ResultHandled, runs, third, waits)
		}
	}
	r.waitFor(webhook.ResultHandled, append(between, first, second)...)
	var order []string
	for _, id := range log.order["cl_1"] {
		if !strings.HasPrefix(id, "other") {
			order = append(order, id)
		}
	}
	assert.Equal(r, []string{"first", "second", "third", "waits"}, order)
}
