package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Storage describes an empty storage for events and the claims of its engine. Open is
// required. A nil function skips the tests that need it.
type Storage struct {
	// Open opens an engine on the storage and starts its workers. The suite calls it again
	// after Close or Crash. If Shared is set, it also calls it while other engines are open.
	// It waits until leases expire, so use short ones.
	Open func(webhook.Work) (engine.Engine, error)

	// OpenSealed is Open with an AEAD of the suite, for engines with the method Reseal.
	OpenSealed func(webhook.Work, seal.AEAD) (engine.Engine, error)

	// Durable claims that accepted events survive a restart.
	Durable bool

	// Shared claims that several processes may share the storage and the work.
	Shared bool

	// Ordered claims support for ordering keys and the stale guard.
	Ordered bool

	// Crash stops an engine as the end of its process would: its handlers have no further
	// effect, and the engine records nothing. The suite lets the handlers return afterwards.
	Crash func(engine.Engine)

	// InTransaction calls the engine's function of that name with the context of a handler. It
	// inserts the text of the event's key into a table of the program, and calls then.
	InTransaction func(ctx context.Context, then func() error) error

	// Rows returns the rows of this table. It creates the table if it does not exist.
	Rows func(*testing.T) []string

	// Dump returns the raw bytes of the storage.
	Dump func(*testing.T) []byte

	// Patience is the longest wait for an event, including the expiry of a lease. 0 means two
	// minutes.
	Patience time.Duration
}

// maxAttempts is the number of attempts of each event.
const maxAttempts = 3

var errDown = errors.New("down: " + canary)

// harness contains the storage of one test, the engines opened on it, and their attempts.
type harness struct {
	*testing.T
	*attemptLog
	storage Storage
	engines []engine.Engine
}

func newHarness(t *testing.T, s Storage) *harness {
	if s.Patience == 0 {
		s.Patience = 2 * time.Minute
	}
	r := &harness{T: t, storage: s, attemptLog: &attemptLog{t: t, patience: s.Patience, begun: map[webhook.Key][]*attempt{}}}
	t.Cleanup(func() {
		for _, inbox := range slices.Clone(r.engines) {
			r.close(inbox)
		}
	})
	return r
}

// need skips a test if the storage lacks a claim or hook.
func (r *harness) need(claimed bool, what string) {
	r.Helper()
	if !claimed {
		r.Skip("the storage lacks: " + what)
	}
}

// work returns the suite's configuration, with short retries and a long handler timeout.
func (r *harness) work(handle webhook.HandlerFunc) webhook.Work {
	return webhook.Work{
		Handle:         handle,
		Retry:          webhook.RetryPolicy{MaxAttempts: maxAttempts, BackOff: 4 * time.Millisecond, MaxBackOff: 8 * time.Millisecond},
		HandlerTimeout: r.storage.Patience,
		Observer:       webhook.Observer{AttemptStart: r.start, AttemptEnd: r.end},
	}
}

// open opens an engine with handle as its handler.
func (r *harness) open(handle webhook.HandlerFunc, changes ...func(*webhook.Work)) engine.Engine {
	r.Helper()
	work := r.work(handle)
	for _, change := range changes {
		change(&work)
	}
	inbox, err := r.storage.Open(work)
	require.NoError(r, err)
	r.engines = append(r.engines, inbox)
	return inbox
}

// openSeveral opens three engines if the storage is shared, otherwise one.
func (r *harness) openSeveral(handle webhook.HandlerFunc, changes ...func(*webhook.Work)) []engine.Engine {
	r.Helper()
	engines := []engine.Engine{r.open(handle, changes...)}
	if r.storage.Shared {
		engines = append(engines, r.open(handle, changes...), r.open(handle, changes...))
	}
	return engines
}

// close closes an engine. It waits only for the handlers of a durable engine, because any
// other engine would handle all of its events first.
func (r *harness) close(inbox engine.Engine) {
	r.Helper()
	// The context of the test is not used, because it may have ended after a failure.
	ctx, cancel := context.WithTimeout(context.Background(), r.storage.Patience)
	defer cancel()
	if !r.storage.Durable {
		cancel()
	}
	if err := inbox.Close(ctx); r.storage.Durable {
		assert.NoError(r, err)
	}
	r.forget(inbox)
}

func (r *harness) forget(inbox engine.Engine) {
	r.engines = slices.DeleteFunc(r.engines, func(other engine.Engine) bool { return other == inbox })
}

// crash stops an engine as kill -9 would.
func (r *harness) crash(inbox engine.Engine) {
	r.storage.Crash(inbox)
	r.forget(inbox)
	r.lose()
}

// missing returns the keys of unknown events.
func (r *harness) missing(inbox engine.Engine, deliveries ...webhook.Delivery) []webhook.Key {
	r.Helper()
	missing, err := inbox.(reconcile.Inbox).Missing(r.Context(), keysOf(deliveries))
	require.NoError(r, err)
	return missing
}

// known requires all deliveries to be known duplicates.
func (r *harness) known(inbox engine.Engine, deliveries ...webhook.Delivery) {
	r.Helper()
	require.Empty(r, r.missing(inbox, deliveries...))
	require.Zero(r, r.accept(inbox, deliveries...))
}

// accept passes events to an engine and returns the number of new ones.
func (r *harness) accept(inbox webhook.Inbox, deliveries ...webhook.Delivery) (fresh int) {
	r.Helper()
	for _, d := range deliveries {
		receipt, err := inbox.Accept(r.Context(), d)
		require.NoError(r, err)
		if !receipt.Duplicate {
			fresh++
		}
	}
	return fresh
}

// deadLetters returns all dead letters, decrypted.
func (r *harness) deadLetters(inbox engine.Engine) []engine.Event {
	r.Helper()
	var deadLetters []engine.Event
	for e, err := range engine.All(r.Context(), inbox, dead) {
		require.NoError(r, err)
		assert.Nil(r, e.Body, "List must not decrypt")
		require.NoError(r, e.Err, "List must not decrypt")
		opened, err := inbox.Open(r.Context(), e.Key)
		if err != nil {
			opened, opened.Err = e, err
		}
		deadLetters = append(deadLetters, opened)
	}
	return deadLetters
}

// dead matches all dead letters.
var dead = engine.Filter{States: []engine.State{engine.StateDead}}

// only matches the given events.
func only(deliveries ...webhook.Delivery) engine.Filter {
	return engine.Filter{Keys: keysOf(deliveries)}
}

// replay and discard change the given dead letters.
func (r *harness) replay(inbox engine.Engine, all ...webhook.Delivery)  { r.change(inbox.Replay, all) }
func (r *harness) discard(inbox engine.Engine, all ...webhook.Delivery) { r.change(inbox.Discard, all) }

func (r *harness) change(change func(context.Context, engine.Filter) (int, error), all []webhook.Delivery) {
	n, err := change(r.Context(), only(all...))
	require.NoError(r, err)
	require.Equal(r, len(all), n)
}

// receive waits for a value from a channel.
func receive[T any](r *harness, c <-chan T) T {
	r.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(r.storage.Patience):
		require.FailNow(r, "no handler started in time")
	}
	return *new(T)
}

func succeed(context.Context, events.Event) error   { return nil }
func fail(context.Context, events.Event) error      { return errDown }
func dieAtOnce(context.Context, events.Event) error { return webhook.Permanent(errDown) }

// unless returns a handler that fails until repaired is true.
func unless(repaired *atomic.Bool, err error) webhook.HandlerFunc {
	return func(context.Context, events.Event) error {
		if repaired.Load() {
			return nil
		}
		return err
	}
}

// slow delays retries beyond the end of a test.
func slow(w *webhook.Work) { w.Retry.BackOff, w.Retry.MaxBackOff = time.Hour, time.Hour }

// together runs f n times concurrently.
func together(n int, f func(int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	group.Wait()
}

func keysOf(deliveries []webhook.Delivery) (keys []webhook.Key) {
	for _, d := range deliveries {
		keys = append(keys, d.Key)
	}
	return keys
}

// failFor returns a handler that fails for one event.
func failFor(id string, err error) webhook.HandlerFunc {
	return func(_ context.Context, e events.Event) error {
		if e.ID == id {
			return err
		}
		return nil
	}
}

// until waits until the gate opens or the context of the attempt ends.
func until(ctx context.Context, gate <-chan struct{}) error {
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// die creates dead letters, in the given order.
func die(r *harness, inbox engine.Engine, deliveries ...webhook.Delivery) {
	r.Helper()
	for _, d := range deliveries {
		r.accept(inbox, d)
		r.waitFor(webhook.ResultDead, d)
	}
}

// pages lists all events in the order of page, page by page.
func (r *harness) pages(inbox engine.Engine, f engine.Filter, page engine.Page) (all []engine.Event) {
	r.Helper()
	for {
		listed, err := inbox.List(r.Context(), f, page)
		require.NoError(r, err)
		all = append(all, listed...)
		if len(listed) < page.Limit {
			return all
		}
		text, err := listed[page.Limit-1].Position.MarshalText()
		require.NoError(r, err)
		require.NoError(r, page.After.UnmarshalText(text))
	}
}

// canary stands for patient data. An engine must never store it in clear text.
const canary = "Zaphod-Inbox-Canary"

var (
	usSandbox = api.USSandbox
	caSandbox = api.CanadaSandbox
	epoch     = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

// patient returns an event about a patient, created n minutes after the epoch.
func patient(eventID, patientID string, n int) webhook.Delivery {
	d := webhook.Delivery{
		Key:        webhook.Key{Environment: usSandbox, EventID: eventID, IntegrationID: "in_1"},
		Type:       events.TypePatientUpdated,
		ClinicID:   "cl_1",
		CreatedAt:  epoch.Add(time.Duration(n) * time.Minute),
		ReceivedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
	// The white space must survive, because the signature covers the exact bytes.
	d.Body = fmt.Appendf(nil, "{ \"event\" :{\"id\":%q,\"type\":%q,\"created_at\":%q,\"clinic_id\":\"cl_1\",\r\n\"data\":{\"patient\":{\"id\":%q,\"first_name\":%q}}}}\n",
		eventID, d.Type, d.CreatedAt.Format(time.RFC3339), patientID, canary)
	return d
}

// created is patient for the creation of the patient.
func created(eventID, patientID string, n int) webhook.Delivery {
	d := patient(eventID, patientID, n)
	d.Type, d.Body = events.TypePatientCreated, bytes.Replace(d.Body, []byte(events.TypePatientUpdated), []byte(events.TypePatientCreated), 1)
	return d
}

// numbered returns n events about n patients.
func numbered(n int) []webhook.Delivery {
	all := make([]webhook.Delivery, n)
	for i := range all {
		all[i] = patient(fmt.Sprint("evt_", i), fmt.Sprint("pa_", i), i)
	}
	return all
}

// integration returns the event of d as sent to another integration.
func integration(d webhook.Delivery, id string) webhook.Delivery {
	d.Key.IntegrationID = id
	return d
}
