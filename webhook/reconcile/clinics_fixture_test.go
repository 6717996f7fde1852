package reconcile_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// clinicsFixture is a platform with several clinics on the clock of synctest. All webhooks are
// lost.
type clinicsFixture struct {
	platform     *dispensarytest.Server
	lost         *dispensarytest.FaultHandle
	environment  api.Environment
	inbox        *memoryinbox.Inbox
	clinics      []string // sorted
	users        map[string]model.User
	integrations map[string]string
	clinicOf     map[string]string // by user

	mu      sync.Mutex
	down    map[string]bool // clinics with 503 responses
	sent    []time.Time     // every attempt, also without a response
	handled map[string]int  // by event id
	runs    map[string][]reconcile.Report
	ended   map[string][]time.Time
	failed  map[string]int
}

func newClinicsFixture(t *testing.T, clinics int) *clinicsFixture {
	t.Helper()
	f := &clinicsFixture{
		users: map[string]model.User{}, integrations: map[string]string{}, clinicOf: map[string]string{},
		down: map[string]bool{}, handled: map[string]int{},
		runs: map[string][]reconcile.Report{}, ended: map[string][]time.Time{}, failed: map[string]int{},
	}
	f.platform = dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: clinics}}),
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart), dispensarytest.WithTuning(dispensarytest.Tuning{JournalLimit: 60_000}))
	f.lost = f.platform.Fault(model.Fault{Effect: model.EffectDeliveryLost})
	f.environment = f.platform.Site().Environment
	for _, person := range f.platform.Users() {
		clinic := person.ClinicID
		if f.clinicOf[person.ID] = clinic; f.integrations[clinic] != "" {
			continue
		}
		found, err := f.platform.Client(person).Clinic.Get(t.Context())
		require.NoError(t, err)
		f.clinics, f.users[clinic], f.integrations[clinic] = append(f.clinics, clinic), person, found.IntegrationID
	}
	slices.Sort(f.clinics)
	require.Len(t, f.clinics, clinics)
	f.platform.Journal.Reset()
	var err error
	f.inbox, err = memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: f.handle}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.inbox.Close(context.Background()) })
	return f
}

// newReceivingFixture returns clinics that receive webhooks.
func newReceivingFixture(t *testing.T, clinics int) *clinicsFixture {
	t.Helper()
	f := newClinicsFixture(t, clinics)
	f.lost.Remove()
	app := f.platform.Application()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: f.environment, Secrets: []api.Secret{api.NewSecret(app.WebhookSecret)}, Challenge: api.NewSecret(app.ChallengeToken),
		Inbox: f.inbox, AcceptTimeout: patient,
	})
	require.NoError(t, err)
	require.NoError(t, f.platform.Webhooks.RegisterHandler(handler))
	return f
}

// open returns a clinic with the token of one of its users. It records every attempt. If the
// clinic is down, it responds with 503 itself.
func (f *clinicsFixture) open(_ context.Context, clinic string, budget api.Limiter) (reconcile.Clinic, error) {
	options := []dispensary.Option{dispensary.WithTransport(roundTrip(func(r *http.Request) (*http.Response, error) {
		f.mu.Lock()
		f.sent = append(f.sent, time.Now())
		down := f.down[clinic]
		f.mu.Unlock()
		if down {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
		}
		return f.platform.HTTPClient().Transport.RoundTrip(r)
	}))}
	if budget != nil {
		options = append(options, dispensary.WithLimiter(budget))
	}
	return reconcile.Clinic{
		Events:       f.platform.Client(f.users[clinic], options...).Events,
		Integrations: reconcile.Integrations(f.integrations[clinic]),
	}, nil
}

func (f *clinicsFixture) handle(_ context.Context, e events.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handled[e.ID]++
	return nil
}

// config returns the configuration of a replica.
func (f *clinicsFixture) config() reconcile.Config {
	return reconcile.Config{
		Environment: f.environment, Inbox: f.inbox, Observer: reconcile.Observer{RunEnd: f.observe},
		List: reconcile.ClinicIDs(f.clinics...), Open: f.open,
	}
}

// reconcileAll starts a replica. Its loop ends with stop or with the test.
func (f *clinicsFixture) reconcileAll(t *testing.T, interval time.Duration, change func(*reconcile.Config)) (all *reconcile.Clinics, stop func()) {
	t.Helper()
	c := f.config()
	if change != nil {
		change(&c)
	}
	all, err := reconcile.New(c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- all.Loop(ctx, interval) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	t.Cleanup(stop)
	return all, stop
}

// reconciled returns the number of successful runs of each clinic, in the order of their ids.
func (f *clinicsFixture) reconciled() []int {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	var runs []int
	for _, id := range f.clinics {
		runs = append(runs, len(f.runs[id]))
	}
	return runs
}

func (f *clinicsFixture) observe(_ context.Context, report reconcile.Report, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, id, _ := strings.Cut(strings.TrimPrefix(report.Name, f.environment.String()), "/")
	switch {
	case errors.Is(err, engine.ErrCheckpointHeld) || report.Skipped || errors.Is(err, context.Canceled):
	case err != nil:
		f.failed[id]++
	default:
		f.runs[id] = append(f.runs[id], report)
		f.ended[id] = append(f.ended[id], time.Now())
	}
}

// happen registers n patients with each clinic.
func (f *clinicsFixture) happen(t *testing.T, n int, clinics ...string) {
	t.Helper()
	for _, clinic := range clinics {
		for range n {
			_, _, err := f.platform.Patients.Create(model.PatientCreate{ClinicID: clinic})
			require.NoError(t, err)
		}
	}
}

// register registers a patient with a clinic, and returns the ID of the event.
func (f *clinicsFixture) register(t *testing.T, clinic string) string {
	t.Helper()
	_, e, err := f.platform.Patients.Create(model.PatientCreate{ClinicID: clinic})
	require.NoError(t, err)
	synctest.Wait() // until its webhook was sent
	return e.ID
}

func (f *clinicsFixture) wasHandled(event string) bool {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.handled[event] == 1
}

// failures returns the number of failed runs over a clinic.
func (f *clinicsFixture) failures(clinic string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed[clinic]
}

// calls counts the requests received by the platform, by clinic.
func (f *clinicsFixture) calls(t *testing.T) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for _, r := range f.platform.Journal.Requests() {
		require.NotEmpty(t, f.clinicOf[r.UserID], r)
		calls[f.clinicOf[r.UserID]]++
	}
	return calls
}
