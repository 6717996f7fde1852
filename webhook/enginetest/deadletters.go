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

// deadLetters tests the side that operators see.
var deadLetters = map[string]func(*harness){
	"Listed":    listed,
	"Replayed":  replayed,
	"Discarded": discarded,
	"Many":      manyLetters,
	"Refused":   refusedLetters,
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
		assert.Equal(r, "error of type *errors.errorString", got.Reason)
		assert.WithinRange(r, got.DiedAt, before.Add(-time.Second), time.Now().Add(time.Second))
	}
	ctx, cancel := context.WithCancel(r.Context())
	cancel()
	for deadLetter, err := range inbox.DeadLetters(ctx) {
		require.Error(r, err)
		require.Empty(r, deadLetter.Key)
	}
	for range inbox.DeadLetters(r.Context()) {
		break
	}
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
	require.NoError(r, inbox.Replay(r.Context(), d.Key))
	r.wait("the second death", func([]webhook.Attempt) bool { return len(r.ofLocked(d)) == 2*maxAttempts })
	again := r.of(d)
	assert.Equal(r, 1, again[maxAttempts].Number, "attempts count anew")
	assert.Equal(r, webhook.ResultDead, again[2*maxAttempts-1].Result)
	require.Len(r, r.deadLetters(inbox), 1)

	repaired.Store(true)
	require.NoError(r, inbox.Replay(r.Context(), d.Key))
	r.waitFor(webhook.ResultHandled, d)
	require.Empty(r, r.deadLetters(inbox))
	require.ErrorIs(r, inbox.Replay(r.Context(), d.Key), webhook.ErrNoDeadLetter)
	require.Zero(r, r.accept(inbox, d))
}

func discarded(r *harness) {
	inbox := r.open(fail)
	all := numbered(2)
	die(r, inbox, all...)
	require.NoError(r, inbox.Discard(r.Context(), all[0].Key))
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	assert.Equal(r, all[1].Key, deadLetters[0].Key)
	require.ErrorIs(r, inbox.Discard(r.Context(), all[0].Key), webhook.ErrNoDeadLetter)
	require.ErrorIs(r, inbox.Replay(r.Context(), all[0].Key), webhook.ErrNoDeadLetter)
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
	for deadLetter, err := range inbox.DeadLetters(r.Context()) {
		require.NoError(r, err)
		if n++; n%2 == 0 {
			require.NoError(r, inbox.Discard(r.Context(), deadLetter.Key))
			continue
		}
		require.NoError(r, inbox.Replay(r.Context(), deadLetter.Key))
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
	for _, d := range []webhook.Delivery{all[0], all[1], unknown, integration(all[0], "in_2")} {
		require.ErrorIs(r, inbox.Replay(r.Context(), d.Key), webhook.ErrNoDeadLetter)
		require.ErrorIs(r, inbox.Discard(r.Context(), d.Key), webhook.ErrNoDeadLetter)
	}
	close(gate)
	receive(r, begun)
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		require.ErrorIs(r, inbox.Replay(r.Context(), d.Key), webhook.ErrNoDeadLetter)
		require.ErrorIs(r, inbox.Discard(r.Context(), d.Key), webhook.ErrNoDeadLetter)
		assert.Len(r, r.of(d), 1)
	}
}
