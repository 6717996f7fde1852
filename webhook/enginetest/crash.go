package enginetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
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
