package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/lab/schedule"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// TestEvents checks the guarantees of webhook, engine and reconcile. An acknowledged event is
// stored, a stored event is handled in the order of its key, and a missed event is recovered.
func TestEvents(t *testing.T) {
	var webhooks atomic.Int64
	explore(t, func(s *schedule.Scheduler) {
		w := newEventWorld(s)
		s.Cleanup(func() { webhooks.Add(w.webhooks.Load()) })
	}, 2500, 80_000)
	assert.Positive(t, webhooks.Load(), "the platform has sent no webhooks")
}

const endpoint = "https://ehr.example.com"

// eventWorld is a platform that sends webhooks to replicas that handle them.
type eventWorld struct {
	s        *schedule.Scheduler
	platform *platform
	table    *eventTable
	memory   *memoryinbox.Inbox // replaces the table if there is one process
	keys     int                // number of keys of new replicas
	stale    webhook.StalePolicy

	integration string
	webhooks    atomic.Int64 // number of acknowledged webhooks
	database    string       // name of the database in the story

	mu        sync.Mutex           // guards the fields below
	receivers map[string]*receiver // latest receiver by name of the replica
	turn      int                  // index of the next receiver
	names     map[string]string    // names of events by ID
	patients  []string
	running   map[webhook.OrderingKey]map[string]time.Time // running events by name, with the end of their claims
	handled   map[webhook.Key]int
	extra     int
	signing   signing
}

// receiver is the part of a replica that receives webhooks.
type receiver struct {
	process *schedule.Process
	handler http.Handler
	inbox   reconcile.Inbox
	secrets []api.Secret // secrets of the handler
	logger  *slog.Logger
}

func newEventWorld(s *schedule.Scheduler) *eventWorld {
	w := newEvents(s)
	w.listen(newPlatform(s, w.options()...))
	inMemory := s.Rand.IntN(5) == 0
	replicas, kills := 2, max(0, s.Rand.IntN(4)-1)
	if inMemory { // the inbox would not survive a kill
		replicas, kills = 1, 0
	}
	var names []string
	for i := range replicas {
		names = append(names, fmt.Sprintf("replica %d", i+1))
		s.Process(names[i], kills, s.Rand.IntN(2), func(p *schedule.Process) {
			w.reconcile(p, w.receive(p, inMemory, 1+s.Rand.IntN(2), nil))
		})
	}
	w.actions()
	w.rotateSecret()
	if s.Rand.IntN(2) == 0 {
		w.setClocks(names)
	}
	w.promises()
	return w
}

// newEvents returns a world with the shared table of the replicas.
func newEvents(s *schedule.Scheduler) *eventWorld {
	w := &eventWorld{
		s: s, keys: 1, database: "the database", receivers: map[string]*receiver{}, names: map[string]string{}, handled: map[webhook.Key]int{},
		running: map[webhook.OrderingKey]map[string]time.Time{}, stale: []webhook.StalePolicy{webhook.StalePolicyIgnore, webhook.StalePolicyReport, webhook.StalePolicySkip}[s.Rand.IntN(3)],
	}
	w.table = newEventTable(func(key webhook.Key) string { return w.name(key.EventID) })
	return w
}

// options returns the options of a platform that sends its webhooks to the replicas.
func (w *eventWorld) options() []dispensarytest.Option {
	sender := &schedule.Process{}
	w.s.Process("platform", 0, 0, func(p *schedule.Process) { *sender = *p })
	return []dispensarytest.Option{
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff),
		dispensarytest.WithTuning(dispensarytest.Tuning{ParallelDeliveries: 3}), dispensarytest.WithWebhook(endpoint + "/webhooks"),
		dispensarytest.WithTuning(dispensarytest.Tuning{DeliveryClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			signed, err := w.sign(r)
			if err != nil {
				return nil, err
			}
			return sender.Transport(roundTrip(w.deliver), w.tellDelivery).RoundTrip(signed)
		})}}),
	}
}

// listen sets the platform that sends the webhooks.
func (w *eventWorld) listen(p *platform) {
	w.platform = p
	shown, err := p.Client(model.User{}).Clinic.Get(context.Background())
	if err != nil {
		panic(err)
	}
	w.integration = shown.IntegrationID
}

// roundTrip is a function used as a transport.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (w *eventWorld) actions() {
	if w.s.Rand.IntN(2) == 0 { // some events appear only in the event lists
		w.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost, Chance: 0.5, Seed: w.s.Rand.Uint64()})
	}
	for i := range 1 + w.s.Rand.IntN(2) {
		name := fmt.Sprintf("patient %d", i+1)
		w.s.Action(name+" registers", 1, nil, func() {
			patient, event, err := w.platform.Patients.Create(model.PatientCreate{FirstName: canary, LastName: canary, Email: fmt.Sprintf("%s-%d@example.com", canary, i)})
			w.happened(event, err)
			w.patients = append(w.patients, patient.ID)
		})
	}
	edits := 1 + w.s.Rand.IntN(3)
	w.s.Action("a patient edits", edits, func() bool { return len(w.patients) > 0 }, func() {
		edited := fmt.Sprintf("%s %d", canary, len(w.platform.Events()))
		_, event, err := w.platform.Patients.Update(w.patients[w.s.Rand.IntN(len(w.patients))], model.PatientUpdate{LastName: &edited})
		w.happened(event, err)
	})
	if w.s.Rand.IntN(2) == 0 {
		var broken *dispensarytest.FaultHandle
		w.s.Action("reading single events fails", 1, nil, func() {
			broken = w.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Operation: "events.get", Status: http.StatusInternalServerError})
			w.s.Disturb()
		})
		w.s.OnRecovery(func() {
			if broken != nil {
				broken.Remove()
			}
		})
	}
	w.s.Action(w.database+" is unreachable", 1, func() bool { return !w.table.down.Load() }, func() { w.table.down.Store(true); w.s.Disturb() })
	w.s.Action(w.database+" is reachable again", 1, func() bool { return w.table.down.Load() }, func() { w.table.down.Store(false) })
	w.s.OnRecovery(func() { w.table.down.Store(false) })
	w.s.Action("another key for "+w.database+" is set in new replicas", 1, nil, func() { w.keys++ })
}

// happened adds an event of the platform to the story.
func (w *eventWorld) happened(event model.Event, err error) {
	if err != nil {
		panic(err)
	}
	w.s.Note("creates %s, %s", event.Type, w.name(event.ID))
}

// name returns the name of an event, numbered by first use. Its webhook may arrive before the
// action that created the event returns.
func (w *eventWorld) name(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names[id] == "" {
		w.names[id] = fmt.Sprintf("event %d", len(w.names)+1)
	}
	return w.names[id]
}

var idOf = regexp.MustCompile(`"event":\{[^{]*?"id":"([^"]+)"`)

// tellDelivery returns the name of a webhook in the story.
func (w *eventWorld) tellDelivery(_ *http.Request, body []byte) string {
	return "webhook of " + w.name(string(idOf.FindSubmatch(body)[1]))
}

// receive creates the inbox and the receiver of a replica. Its handler calls task for each event,
// unless task is nil.
func (w *eventWorld) receive(p *schedule.Process, inMemory bool, workers int, task webhook.HandlerFunc) *receiver {
	r := &receiver{process: p, logger: logtest.NewLogger(&w.platform.logs)}
	work := webhook.Work{
		Handle: func(ctx context.Context, e events.Event) error { return w.handle(ctx, p, e, task) },
		Order:  webhook.ByPatient, Stale: w.stale, Workers: workers, HandlerTimeout: 15 * time.Second,
		Retry: webhook.RetryPolicy{MaxAttempts: 40}, Logger: r.logger,
	}
	if inMemory {
		inbox, err := memoryinbox.New(memoryinbox.Config{Work: work})
		if err != nil {
			panic(err)
		}
		w.s.Cleanup(func() {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = inbox.Close(ctx)
		})
		w.memory, r.inbox = inbox, inbox
	} else {
		inbox := newTableInbox(p, w.table, w.ring(), work)
		w.s.Cleanup(inbox.batcher.Close)
		r.inbox = inbox
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.secrets = w.signing.known
	r.handler = w.newHandler(r)
	w.receivers[p.Name] = r
	return r
}

func (w *eventWorld) ring() *seal.KeyRing {
	var keys []seal.Key
	for n := range 3 {
		key := newKey(n)
		if n >= w.keys {
			key = key.Pending()
		}
		keys = append([]seal.Key{key}, keys...)
	}
	ring, err := seal.NewKeyRing(keys...)
	if err != nil {
		panic(err)
	}
	return ring
}
