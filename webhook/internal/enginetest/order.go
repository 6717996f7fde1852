package enginetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// ordering tests events that must wait for each other.
var ordering = map[string]func(*harness){
	"OldestFirst":        oldestFirst,
	"FailureBlocksKey":   failureHoldsUp,
	"DeadLetterFreesKey": deadLetterLetsGo,
	"HandledNow":         headHandledNow,
}

func byObject(w *webhook.Work) { w.Order = webhook.ByObject }

// journal records the order of the handled events of each patient, and whether two of them
// overlapped.
type journal struct {
	mu      sync.Mutex
	running map[string]int
	overlap bool
	order   map[string][]string
}

func newJournal() *journal {
	return &journal{running: map[string]int{}, order: map[string][]string{}}
}

func (j *journal) begin(patientID string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running[patientID]++
	j.overlap = j.overlap || j.running[patientID] > 1
}

func (j *journal) end(patientID, eventID string, handled bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running[patientID]--
	if handled {
		j.order[patientID] = append(j.order[patientID], eventID)
	}
}

// oldestFirst blocks the first event of each patient until others wait. These were accepted in
// random order, through several engines if the storage is shared. Some of them fail once.
// Event 4 creates the patient at the time of event 3. More events are accepted while these are
// handled.
func oldestFirst(r *harness) {
	const patients, waiting, more = 4, 12, 20
	gate, begun := make(chan struct{}), make(chan struct{}, patients)
	log := newJournal()
	engines := r.openSeveral(func(ctx context.Context, e events.Event) error {
		var p, n int
		_, err := fmt.Sscanf(e.ID, "evt_%d_%d", &p, &n)
		assert.NoError(r, err)
		id := fmt.Sprint("pa_", p)
		log.begin(id)
		switch {
		case n == 0:
			begun <- struct{}{}
			err = until(ctx, gate)
		case n%5 == 2 && webhook.HandlingFrom(ctx).Attempt == 1:
			err = errDown
		}
		for range 300 { // gives other events a chance to start too early
			runtime.Gosched()
		}
		log.end(id, e.ID, err == nil)
		return err
	}, byObject, func(w *webhook.Work) { w.Workers = patients })
	var all []webhook.Delivery
	for n := range waiting + more {
		for p := range patients {
			d := patient(fmt.Sprintf("evt_%d_%d", p, n), fmt.Sprint("pa_", p), n)
			if n == 4 {
				d = created(d.Key.EventID, fmt.Sprint("pa_", p), 3)
			}
			all = append(all, d)
		}
	}
	accept := func(some []webhook.Delivery) {
		rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		together(6, func(c int) {
			for i := c; i < len(some); i += 6 {
				_, err := engines[c%len(engines)].Accept(context.Background(), some[i])
				assert.NoError(r, err)
			}
		})
	}
	accept(all[:patients])
	for range patients {
		receive(r, begun) // events of different patients run concurrently
	}
	accept(all[patients : patients*waiting])
	close(gate)
	accept(all[patients*waiting:])
	r.waitFor(webhook.ResultHandled, all...)
	assert.False(r, log.overlap, "two events of a patient at the same time")
	for p := range patients {
		var want []string
		for _, n := range []int{0, 1, 2, 4, 3, 5, 6, 7, 8, 9, 10, 11} {
			want = append(want, fmt.Sprintf("evt_%d_%d", p, n))
		}
		order := log.order[fmt.Sprint("pa_", p)]
		assert.Equal(r, want, order[:min(waiting, len(order))])
		assert.Len(r, order, waiting+more, "each event once")
	}
}

// failureHoldsUp requires that a failing event delays only the later events of its ordering
// key, even with one worker.
func failureHoldsUp(r *harness) {
	inbox := r.open(failFor("fails", errDown), byObject, slow, func(w *webhook.Work) { w.Workers = 1 })
	fails, later := patient("fails", "pa_1", 2), patient("later", "pa_1", 3)
	other, older := patient("other", "pa_2", 3), patient("older", "pa_1", 1)
	elsewhere := integration(patient("fails not", "pa_1", 4), "in_2")
	r.accept(inbox, fails)
	r.waitFor(webhook.ResultFailed, fails)
	r.accept(inbox, later, other, older, elsewhere)
	r.waitFor(webhook.ResultHandled, other, older, elsewhere)
	assert.Empty(r, r.results(later))
}

func deadLetterLetsGo(r *harness) {
	inbox := r.open(failFor("dies", errDown), byObject)
	dies, later := patient("dies", "pa_1", 1), patient("later", "pa_1", 2)
	r.accept(inbox, dies, later)
	r.waitFor(webhook.ResultHandled, later)
	r.waitFor(webhook.ResultDead, dies) // an engine records it first, so its report may come after the report of later
	require.Equal(r, []webhook.Result{webhook.ResultFailed, webhook.ResultFailed, webhook.ResultDead}, r.results(dies))
}

// headHandledNow calls HandleNow for all events of an ordering key. Only the first one may
// change.
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
	require.Zero(r, n, "these events only wait for the first one")
	require.Len(r, r.of(fails), 1)
	r.holds(inbox, engine.Stats{Waiting: 3, Oldest: fails.ReceivedAt})
	n, err = inbox.HandleNow(r.Context(), only(third, second, fails))
	require.NoError(r, err)
	require.Equal(r, 1, n)
	r.waitFor(webhook.ResultHandled, fails, second, third)
	assert.Equal(r, []string{"fails", "second", "third"}, log.order["pa_1"])
	assert.Equal(r, 2, r.of(fails)[1].Number)
}

// staleness tests late events: a newer event of the object was handled before.
var staleness = map[string]func(*harness){
	"Reported": func(r *harness) { stale(r, webhook.StalePolicyReport, webhook.ResultHandled) },
	"Skipped":  func(r *harness) { stale(r, webhook.StalePolicySkip, webhook.ResultSkipped) },
}

// stale handles an event, and then older, equally old, newer and undated events of the same
// object and of others. A dead letter must not make an event stale. A restart must not lose
// the times of handled events. want is the result of a stale event under the policy.
func stale(r *harness, policy webhook.StalePolicy, want webhook.Result) {
	handle := failFor("dies", webhook.Permanent(errDown))
	guarded := func(w *webhook.Work) { w.Order, w.Stale = webhook.ByClinic, policy }
	inbox := r.open(handle, guarded)
	die(r, inbox, patient("dies", "pa_1", 30))
	ageless := patient("ageless", "pa_1", 1)
	ageless.CreatedAt = time.Time{}
	steps := []struct {
		delivery webhook.Delivery
		stale    bool
	}{
		{patient("first", "pa_1", 10), false},
		{patient("older", "pa_1", 5), true},
		{patient("newer than a stale one", "pa_1", 7), true},
		{patient("as old", "pa_1", 10), false},
		{patient("other", "pa_2", 1), false},
		{integration(patient("first", "pa_1", 5), "in_2"), false},
		{ageless, false},
		{patient("newer", "pa_1", 20), false},
		{created("born in the moment of its change", "pa_1", 20), true},
		{created("born elsewhere", "pa_3", 20), false},
		{patient("changed in the moment of its birth", "pa_3", 20), false},
		{patient("between", "pa_1", 15), true},
	}
	for n, step := range steps {
		if n == len(steps)-1 && r.storage.Durable {
			r.close(inbox)
			inbox = r.open(handle, guarded)
		}
		r.accept(inbox, step.delivery)
		result := webhook.ResultHandled
		if step.stale {
			result = want
		}
		r.waitFor(result, step.delivery)
		assert.Equal(r, step.stale, r.of(step.delivery)[0].Stale, "%s", step.delivery)
	}
	require.Len(r, r.deadLetters(inbox), 1)
	r.ends(inbox, "between", epoch, 1, 0)
}
