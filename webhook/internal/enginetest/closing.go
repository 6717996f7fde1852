package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// closing tests early and late calls, and deployments.
var closing = map[string]func(*harness){
	"Ended":     callsThatEnded,
	"Closed":    callsAfterClose,
	"Finishes":  closeFinishes,
	"HandsBack": closeHandsBack,
	"Restart":   restartKeeps,
	"Start":     startDelays,
}

// calls returns the methods that must fail if their context has ended or the engine is closed.
func calls(inbox engine.Engine, d webhook.Delivery) map[string]func(context.Context) error {
	checkpoints := inbox.(reconcile.Inbox)
	all := map[string]func(context.Context) error{
		"Accept":          func(ctx context.Context) error { return errorOf(inbox.Accept(ctx, d)) },
		"List":            func(ctx context.Context) error { return errorOf(inbox.List(ctx, only(d), engine.Page{Limit: 1})) },
		"Count":           func(ctx context.Context) error { return errorOf(inbox.Count(ctx, only(d), 0)) },
		"Open":            func(ctx context.Context) error { return errorOf(inbox.Open(ctx, d.Key)) },
		"Finished":        func(ctx context.Context) error { return errorOf(inbox.Finished(ctx, d.Key.EventID)) },
		"Replay":          func(ctx context.Context) error { return errorOf(inbox.Replay(ctx, only(d))) },
		"Discard":         func(ctx context.Context) error { return errorOf(inbox.Discard(ctx, only(d))) },
		"HandleNow":       func(ctx context.Context) error { return errorOf(inbox.HandleNow(ctx, only(d))) },
		"CheckWrite":      func(ctx context.Context) error { return inbox.CheckWrite(ctx) },
		"Stats":           func(ctx context.Context) error { return errorOf(inbox.Stats(ctx)) },
		"Missing":         func(ctx context.Context) error { return errorOf(checkpoints.Missing(ctx, []webhook.Key{d.Key})) },
		"ClaimCheckpoint": func(ctx context.Context) error { return errorOf(checkpoints.ClaimCheckpoint(ctx, "a", "b", longClaim)) },
		"SaveCheckpoint":  func(ctx context.Context) error { return checkpoints.SaveCheckpoint(ctx, "a", "b", nil, longClaim) },
	}
	if encrypting, ok := inbox.(reencrypter); ok {
		all["Reseal"] = func(ctx context.Context) error { return errorOf(encrypting.Reseal(ctx)) }
	}
	return all
}

func errorOf[T any](_ T, err error) error { return err }

func callsThatEnded(r *harness) {
	inbox := r.open(succeed)
	ended, cancel := context.WithCancel(r.Context())
	cancel()
	d := patient("evt_1", "pa_1", 1)
	for name, call := range calls(inbox, d) {
		err := call(ended)
		require.Error(r, err, name)
		assert.NotContains(r, err.Error(), canary, name)
	}
	require.Equal(r, 1, r.accept(inbox, d), "the canceled Accept must not store the event")
	r.waitFor(webhook.ResultHandled, d)
}

func callsAfterClose(r *harness) {
	inbox := r.open(succeed)
	for range 2 {
		require.NoError(r, inbox.Close(r.Context()))
	}
	for name, call := range calls(inbox, patient("evt_1", "pa_1", 1)) {
		if !r.storage.Durable && slices.Contains([]string{"List", "Count", "Open", "Finished", "Discard"}, name) {
			continue // these still work after Close
		}
		require.ErrorIs(r, call(r.Context()), webhook.ErrInboxClosed, name)
	}
}

// closeFinishes requires that Close waits for a running handler. A durable engine must not
// start another one, because its events can wait for the next start.
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
	require.Eventually(r, func() bool {
		_, err := inbox.Accept(r.Context(), all[0])
		return errors.Is(err, webhook.ErrInboxClosed)
	}, r.storage.Patience, time.Millisecond)
	open.Store(true)
	close(gate)
	require.NoError(r, receive(r, closed))
	if !r.storage.Durable {
		return
	}
	require.Empty(r, begun, "a handler started after Close")
	r.forget(inbox)
	r.open(func(_ context.Context, e events.Event) error {
		assert.NotEqual(r, first, e.ID, "the event was handled already")
		return nil
	})
	r.waitFor(webhook.ResultHandled, all...)
	for _, d := range all {
		assert.Equal(r, []webhook.Result{webhook.ResultHandled}, r.results(d))
	}
}

// closeHandsBack closes an engine during a handler that does not finish. Close must cancel the
// handler, and its attempt must not count.
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
	assert.Equal(r, 1, made[1].Number, "a returned attempt does not count")
}

// restartKeeps restarts an engine with a checkpoint and events in every state.
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
	checkpoints := inbox.(reconcile.Inbox)
	_, err := checkpoints.ClaimCheckpoint(r.Context(), "name", "first", longClaim)
	require.NoError(r, err)
	require.NoError(r, checkpoints.SaveCheckpoint(r.Context(), "name", "first", []byte("state"), longClaim))
	require.NoError(r, checkpoints.ReleaseCheckpoint(r.Context(), "name", "first"))
	r.close(inbox)

	inbox = r.open(succeed)
	state, err := inbox.(reconcile.Inbox).ClaimCheckpoint(r.Context(), "name", "second", longClaim)
	require.NoError(r, err)
	assert.Equal(r, "state", string(state))
	r.known(inbox, waits, dead, discarded, handled)
	deadLetters := r.deadLetters(inbox)
	require.Len(r, deadLetters, 1)
	r.same(dead, deadLetters[0].Delivery)
	r.waitFor(webhook.ResultHandled, waits)
	assert.Equal(r, 2, r.of(waits)[1].Number, "the number of attempts survives a restart")
	r.replay(inbox, dead)
	r.waitFor(webhook.ResultHandled, dead)
	assert.Len(r, r.of(handled), 1)
	assert.Len(r, r.of(discarded), 1)
}

// crashes tests killed processes.
var crashes = map[string]func(*harness){
	"Handled": crashIsOvercome,
	"Poison":  poisonDies,
}

func (r *harness) needCrash() {
	r.Helper()
	r.need(r.storage.Durable && r.storage.Crash != nil, "Durable and Crash")
}

// stuck is the handler of a process before its kill. It reports its start on begun, and
// ignores its context until the gate opens.
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

// crashIsOvercome requires that another engine handles the events of a crashed engine in
// order. If the storage is shared, the other engine is open before the crash.
func crashIsOvercome(r *harness) {
	r.needCrash()
	s := newStuck(r)
	inbox := r.open(s.handle, byObject, func(w *webhook.Work) { w.Workers = 2 })
	var all []webhook.Delivery
	for _, n := range []int{1, 0, 2} { // an older and a newer event arrive while a handler is stuck
		for _, p := range []string{"pa_1", "pa_2"} {
			d := patient(fmt.Sprint(p, "_", n), p, n)
			all = append(all, d)
			r.accept(inbox, d)
			if n == 1 {
				receive(r, s.begun)
			}
		}
	}
	log := newJournal()
	handle := func(_ context.Context, e events.Event) error {
		log.begin(e.ID[:4])
		log.end(e.ID[:4], e.ID, true)
		return nil
	}
	var other engine.Engine
	if r.storage.Shared {
		other = r.open(handle, byObject)
	}
	r.crash(inbox)
	if other == nil {
		other = r.open(handle, byObject)
	}
	r.known(other, all...)
	r.waitFor(webhook.ResultHandled, all...)
	for n, d := range all {
		made := r.of(d)
		want := 1
		if n < 2 {
			want = 2 // the lost attempt counts too
		}
		assert.Equal(r, want, made[len(made)-1].Number, "%s", d)
	}
	assert.False(r, log.overlap)
	for _, p := range []string{"pa_1", "pa_2"} {
		assert.Equal(r, []string{p + "_0", p + "_1", p + "_2"}, log.order[p])
	}
}

// poisonDies requires that an event becomes a dead letter if it kills every process.
func poisonDies(r *harness) {
	r.needCrash()
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
	assert.Empty(r, s.begun, "the event was handled once more")
	for _, f := range r.failures(inbox, d, 1, 2, 3) {
		assert.Equal(r, webhook.ErrAbandoned.Error(), f.Reason)
	}
}

// startDelays requires that an engine claims no event before its start, and closes without one.
func startDelays(r *harness) {
	start := make(chan struct{})
	held := func(w *webhook.Work) { w.Start = start }
	var started atomic.Bool
	inbox := r.open(func(context.Context, events.Event) error {
		assert.True(r, started.Load(), "must handle no event before the start")
		return nil
	}, held)
	deliveries := []webhook.Delivery{patient("evt_1", "pa_1", 1), patient("evt_2", "pa_2", 2), patient("evt_3", "pa_1", 3)}
	r.accept(inbox, deliveries...)
	if r.storage.Shared { // another process is not held up
		r.open(succeed)
		r.waitFor(webhook.ResultHandled, deliveries...)
	}
	started.Store(true)
	close(start)
	last := patient("evt_4", "pa_1", 4)
	r.accept(inbox, last)
	r.waitFor(webhook.ResultHandled, append(deliveries, last)...)
	r.close(inbox)

	r.need(r.storage.Durable, "Durable")
	start = make(chan struct{})
	inbox = r.open(succeed, held)
	after := patient("evt_5", "pa_1", 5)
	r.accept(inbox, after)
	r.close(inbox)
	r.open(succeed)
	r.waitFor(webhook.ResultHandled, after)
}
