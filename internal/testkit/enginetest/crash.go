package enginetest

import (
	"context"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// crashes tests processes that are killed.
var crashes = map[string]func(*harness){
	"Handled": crashIsOvercome,
	"Poison":  poisonDies,
	"Order":   orderAfterCrash,
}

func (r *harness) needCrash() {
	r.Helper()
	r.need(r.storage.Durable && r.storage.Crash != nil, "Durable and Crash")
}

// stuck is the handler of a process that will be killed: it reports that it has begun, and
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

// crashIsOvercome requires that another engine handles the events of one that crashed: one
// that is open already if the storage is shared.
func crashIsOvercome(r *harness) {
	r.needCrash()
	s := newStuck(r)
	inbox := r.open(s.handle, func(w *webhook.Work) { w.Workers = 2 })
	all := numbered(5)
	r.accept(inbox, all...)
	receive(r, s.begun)
	receive(r, s.begun)
	var other engine.Engine
	if r.storage.Shared {
		other = r.open(succeed)
	}
	r.crash(inbox)
	if other == nil {
		other = r.open(succeed)
	}
	r.known(other, all...)
	r.waitFor(webhook.ResultHandled, all...)
	second := 0
	for _, d := range all {
		if made := r.of(d); made[len(made)-1].Number == 2 {
			second++
		}
	}
	assert.Equal(r, 2, second, "only the attempts that were lost count")
}

// poisonDies requires that an event which kills every process becomes a dead letter.
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
	assert.Empty(r, s.begun, "it was handled once more")
}

// orderAfterCrash requires that the event of a dead process still comes before those that
// waited for it.
func orderAfterCrash(r *harness) {
	r.needCrash()
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
