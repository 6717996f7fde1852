package enginetest

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

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
