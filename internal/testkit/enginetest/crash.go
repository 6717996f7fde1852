package enginetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// crashes plays processes that end without a word.
var crashes = map[string]func(*harness){
	"Handled":    crashIsOvercome,
	"Poison":     poisonDies,
	"OtherTakes": otherTakesOver,
	"Order":      orderAfterCrash,
}

// stuck is a handler that says that it has begun, and then hears nothing until
// the gate opens: what a process does that will be killed.
type stuck struct{ begun, gate chan struct{} }

func newStuck(r *harness) *stuck {
	s := &stuck{begun: make(chan struct{}, 100), gate: make(chan struct{})}
	r.Cleanup(func() { close(s.gate) })
	return s
}

func (s *stuck) handle(context.Context, events.Event) error {
	s.begun <- struct{}{}
	<-s.gate
	return nil
}

func crashIsOvercome(r *harness) {
	r.need(r.storage.Durable && r.storage.Crash != nil, "Durable and Crash")
	s := newStuck(r)
	inbox := r.open(s.handle, func(w *webhook.Work) { w.Workers = 2 })
	all := numbered(5)
	r.accept(inbox, all...)
	receive(r, s.begun)
	receive(r, s.begun)
	r.crash(inbox)

	inbox = r.open(succeed)
	require.Zero(r, r.accept(inbox, all...))
	r.waitFor(webhook.ResultHandled, all...)
	second := 0
	for _, d := range all {
		if made := r.of(d); made[len(made)-1].Number == 2 {
			second++
		}
	}
	assert.Equal(r, 2, second, "the attempts that were lost count, and no others")
}

// poisonDies holds that an event which ends every process that handles it ends
// as a dead letter.
func poisonDies(r *harness) {
	r.need(r.storage.Durable && r.storage.Crash != nil, "Durable and Crash")
	s := newStuck(r)
	d := patient("evt_1", "pa_1", 1)
	for n := range maxAttempts {
		inbox := r.open(s.handle)
		if n == 0 {
			r.accept(inbox, d)
		}
		receive(r, s.begun)
		r.crash(inbox)
	}
	inbox := r.open(s.handle)
	r.waitFor(webhook.ResultDead, d)
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	assert.Equal(r, webhook.ErrAbandoned.Error(), deadLetters[0].Reason)
	assert.Equal(r, maxAttempts, deadLetters[0].Attempts)
	assert.Empty(r, s.begun, "it was handled once more")
}

func otherTakesOver(r *harness) {
	r.need(r.storage.Shared && r.storage.Crash != nil, "Shared and Crash")
	s := newStuck(r)
	inbox := r.open(s.handle, func(w *webhook.Work) { w.Workers = 2 })
	all := numbered(4)
	r.accept(inbox, all...)
	receive(r, s.begun)
	receive(r, s.begun)
	other := r.open(succeed)
	r.crash(inbox)
	r.waitFor(webhook.ResultHandled, all...)
	require.Zero(r, r.accept(other, all...))
}

// orderAfterCrash holds that what a dead process held still comes before what
// waited for it.
func orderAfterCrash(r *harness) {
	r.need(r.storage.Durable && r.storage.Crash != nil && r.storage.Ordered, "Durable, Crash and Ordered")
	s := newStuck(r)
	inbox := r.open(s.handle, byObject)
	all := []webhook.Delivery{patient("evt_1", "pa_1", 1), patient("evt_2", "pa_1", 2), patient("evt_3", "pa_1", 3)}
	r.accept(inbox, all...)
	receive(r, s.begun)
	r.crash(inbox)
	handled := make(chan string, len(all))
	r.open(func(_ context.Context, e events.Event) error {
		handled <- e.ID
		return nil
	}, byObject)
	for _, d := range all {
		assert.Equal(r, d.Key.EventID, receive(r, handled))
	}
}

// closing tests what deployments do.
var closing = map[string]func(*harness){
	"Idle":      closeIdle,
	"Finishes":  closeFinishes,
	"HandsBack": closeHandsBack,
	"Restart":   restartKeeps,
}

func closeIdle(r *harness) {
	inbox := r.open(succeed)
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	r.waitFor(webhook.ResultHandled, d)
	for range 2 {
		require.NoError(r, inbox.Close(r.Context()))
	}
	_, err := inbox.Accept(r.Context(), patient("evt_2", "pa_1", 1))
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	_, err = inbox.Replay(r.Context(), only(d))
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	if !r.storage.Durable {
		return // what it holds can be looked at as long as it is there
	}
	_, err = inbox.List(r.Context(), engine.Filter{}, engine.Position{}, 1)
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	_, err = inbox.Count(r.Context(), engine.Filter{}, 0)
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	_, err = inbox.Open(r.Context(), d.Key)
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
	_, err = inbox.Discard(r.Context(), only(d))
	require.ErrorIs(r, err, webhook.ErrInboxClosed)
}

// closeFinishes holds that what is being handled may finish, and that nothing is
// begun any more where it can wait for the next start.
func closeFinishes(r *harness) {
	gate, begun := make(chan struct{}), make(chan string, 3)
	var open atomic.Bool
	inbox := r.open(func(ctx context.Context, e events.Event) error {
		begun <- e.ID
		if open.Load() {
			return nil
		}
		return until(ctx, gate)
	}, func(w *webhook.Work) { w.Workers = 1 })
	all := numbered(3)
	r.accept(inbox, all...)
	first := receive(r, begun)
	closed := make(chan error, 1)
	go func() { closed <- inbox.Close(context.Background()) }()
	r.untilClosed(inbox, all[0])
	open.Store(true)
	close(gate)
	require.NoError(r, receive(r, closed))
	if !r.storage.Durable {
		return
	}
	require.Empty(r, begun, "something was begun after Close")
	r.forget(inbox)
	r.open(func(_ context.Context, e events.Event) error {
		assert.NotEqual(r, first, e.ID, "it was handled")
		return nil
	})
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		assert.Equal(r, []webhook.Result{webhook.ResultHandled}, r.results(d))
	}
}

// untilClosed waits until an engine says that it accepts no more.
func (r *harness) untilClosed(inbox engine.Engine, known webhook.Delivery) {
	r.Helper()
	for end := time.Now().Add(r.storage.Patience); ; {
		_, err := inbox.Accept(r.Context(), known)
		if errors.Is(err, webhook.ErrInboxClosed) {
			return
		}
		require.True(r, time.Now().Before(end), "the engine does not stop accepting")
	}
}

// closeHandsBack holds that the context of a handler that does not finish ends, and
// that this is no failed attempt.
func closeHandsBack(r *harness) {
	begun := make(chan struct{}, 1)
	inbox := r.open(func(ctx context.Context, _ events.Event) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	d := patient("evt_1", "pa_1", 1)
	r.accept(inbox, d)
	receive(r, begun)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := inbox.Close(ctx)
	r.waitFor(webhook.ResultReturned, d)
	if !r.storage.Durable {
		return
	}
	require.NoError(r, err)
	r.forget(inbox)
	r.open(succeed)
	r.waitFor(webhook.ResultHandled, d)
	made := r.of(d)
	require.Len(r, made, 2)
	assert.Equal(r, 1, made[1].Number, "an attempt that was handed back does not count")
}

// restartKeeps stops an engine with events in every state there is.
func restartKeeps(r *harness) {
	r.need(r.storage.Durable, "Durable")
	handle := func(_ context.Context, e events.Event) error {
		switch e.ID {
		case "dead", "discarded":
			return webhook.Permanent(errDown)
		case "waits":
			return errDown
		}
		return nil
	}
	slowly := func(w *webhook.Work) { w.Retry.BackOff, w.Retry.MaxBackOff = time.Second, time.Second }
	inbox := r.open(handle, slowly)
	waits, dead := patient("waits", "pa_1", 1), patient("dead", "pa_2", 1)
	discarded, handled := patient("discarded", "pa_3", 1), patient("handled", "pa_4", 1)
	die(r, inbox, dead, discarded)
	r.discard(inbox, discarded)
	r.accept(inbox, waits, handled)
	r.waitFor(webhook.ResultFailed, waits)
	r.waitFor(webhook.ResultHandled, handled)
	r.close(inbox)

	inbox = r.open(succeed)
	require.Zero(r, r.accept(inbox, waits, dead, discarded, handled), "all are known")
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	assert.Equal(r, dead.Key, deadLetters[0].Key)
	assert.Equal(r, string(dead.Body), string(deadLetters[0].Body))
	r.waitFor(webhook.ResultHandled, waits)
	assert.Equal(r, 2, r.of(waits)[1].Number, "attempts go on counting")
	r.replay(inbox, dead)
	r.waitFor(webhook.ResultHandled, dead)
	assert.Len(r, r.of(handled), 1)
	assert.Len(r, r.of(discarded), 1)
}
