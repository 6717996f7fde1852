package reconcile_test

import (
	"context"
	"errors"
	"io"
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
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

const usersOfAClinic = 3

// clinicsFixture is a platform with clinics of three connected users each, whose webhooks
// are all lost, on the clock of a bubble.
type clinicsFixture struct {
	platform    *dispensarytest.Server
	lost        *dispensarytest.FaultHandle
	environment api.Environment
	accounts    *accounts.Accounts
	store       *tokens.MemoryStore
	inbox       *memoryinbox.Inbox
	clinics     []string          // in the order of their ids
	clinicOf    map[string]string // by person of the platform, and by clinic key
	keys        map[string]string // by clinic

	mu      sync.Mutex
	down    map[string]bool // clinics that the platform does not answer
	sent    []time.Time     // every attempt, answered or not
	handled map[string]int  // by event id
	runs    map[string][]reconcile.Report
	ended   map[string][]time.Time
	failed  map[string]int
}

func newClinicsFixture(t *testing.T, clinics int) *clinicsFixture {
	t.Helper()
	f := &clinicsFixture{
		clinicOf: map[string]string{}, keys: map[string]string{}, down: map[string]bool{}, handled: map[string]int{},
		runs: map[string][]reconcile.Report{}, ended: map[string][]time.Time{}, failed: map[string]int{},
	}
	f.platform = dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithWorldSize(model.WorldSize{Clinics: clinics}),
		dispensarytest.WithBehavior(dispensarytest.DeliveryConditionsOff, dispensarytest.IntegrationActivationFromTheStart), dispensarytest.WithJournalLimit(60_000))
	f.lost = f.platform.Fault(model.Fault{Effect: model.DeliveryLost})
	f.environment = f.platform.Site().Environment
	for _, clinic := range f.platform.Clinics.All() {
		f.clinics = append(f.clinics, clinic.ID)
		f.keys[clinic.ID] = f.platform.ClinicKeys(clinic.ID)[0]
		f.clinicOf[f.keys[clinic.ID]] = clinic.ID
	}
	slices.Sort(f.clinics)
	var err error
	f.inbox, err = memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: f.handle}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.inbox.Close(context.Background()) })
	f.connect(t)
	return f
}

// connect makes the accounts, with what connecting users of all clinics has left: tokens,
// and what GET /clinic has said. (The browser flow of all of them would take long.)
func (f *clinicsFixture) connect(t *testing.T) {
	t.Helper()
	app := f.platform.Application()
	through := &http.Client{Transport: f}
	f.store = tokens.NewMemoryStore()
	var err error
	f.accounts, err = accounts.New(accounts.Config{
		Applications: []oauth.Config{{
			Site: f.platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI, HTTPClient: f.platform.HTTPClient(),
		}},
		Tokens: tokens.Config{Store: f.store},
		ClinicKey: func(_ context.Context, user string) (dispensary.Secret, error) {
			return dispensary.NewSecret(f.keys[f.clinicOf[user]]), nil
		},
		Options: func(api.Environment) []dispensary.Option {
			return []dispensary.Option{dispensary.WithHTTPClient(through)}
		},
	})
	require.NoError(t, err)
	connected := map[string][]oauth.Clinic{}
	for _, person := range f.platform.Users() {
		f.clinicOf[person.ID] = person.ClinicID
		known := connected[person.ClinicID]
		if len(known) == usersOfAClinic {
			continue
		}
		if len(known) == 0 {
			found, err := f.platform.Client(person).Clinic.Get(t.Context())
			require.NoError(t, err)
			known = []oauth.Clinic{{ID: found.ID, IntegrationID: found.IntegrationID}}
		}
		issued := f.platform.Tokens.Issue(person)
		_, err := f.store.Save(t.Context(), tokens.Key{Environment: f.environment, User: person.ID}, oauth.Token{
			AccessToken: api.NewSecret(issued.AccessToken), RefreshToken: api.NewSecret(issued.RefreshToken),
			ExpiresAt: issued.ExpiresAt, ConnectedAt: time.Now(), Clinic: known[0], Environment: f.environment,
		})
		require.NoError(t, err)
		connected[person.ClinicID] = append(connected[person.ClinicID], known[0])
	}
	require.Len(t, connected, len(f.clinics))
	f.platform.Journal().Reset()
}

// RoundTrip counts every attempt, and answers those of a clinic that is down.
func (f *clinicsFixture) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.sent = append(f.sent, time.Now())
	down := f.down[f.clinicOf[r.Header.Get("X-SVC-Clinic-Key")]]
	f.mu.Unlock()
	if down {
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("")), Request: r, Header: http.Header{}}, nil
	}
	return f.platform.HTTPClient().Transport.RoundTrip(r)
}

func (f *clinicsFixture) handle(_ context.Context, e events.Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handled[e.ID]++
	return nil
}

// config is that of a replica.
func (f *clinicsFixture) config() reconcile.Config {
	return reconcile.Config{
		Environment: f.environment, Inbox: f.inbox, Observer: reconcile.Observer{RunEnd: f.observe},
		List: func(ctx context.Context, after string, limit int) ([]string, error) {
			return f.accounts.Clinics(ctx, f.environment, after, limit)
		},
		Open: func(ctx context.Context, clinicID string, budget api.Limiter) (reconcile.Clinic, error) {
			clinic, err := f.accounts.ForClinic(ctx, f.environment, clinicID, accounts.ClinicOptions{Limiter: budget})
			if err != nil {
				return reconcile.Clinic{}, err
			}
			return reconcile.Clinic{Events: clinic.Client.Events, Integrations: clinic.Integrations}, nil
		},
	}
}

// reconcileAll starts a replica; its loop ends with stop, or with the test.
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

// reconciled returns how often each clinic was, in the order of their ids.
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
	case errors.Is(err, reconcile.ErrCheckpointHeld) || report.Skipped || errors.Is(err, context.Canceled):
	case err != nil:
		f.failed[id]++
	default:
		f.runs[id] = append(f.runs[id], report)
		f.ended[id] = append(f.ended[id], time.Now())
	}
}

// happen registers n patients with each of some clinics.
func (f *clinicsFixture) happen(t *testing.T, n int, clinics ...string) {
	t.Helper()
	for _, clinic := range clinics {
		for range n {
			_, _, err := f.platform.Patients.Register(model.NewPatient{ClinicID: clinic})
			require.NoError(t, err)
		}
	}
}

// calls counts the requests that have reached the platform, by clinic.
func (f *clinicsFixture) calls(t *testing.T) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for _, r := range f.platform.Journal().Requests() {
		require.NotEmpty(t, f.clinicOf[r.UserID], r)
		calls[f.clinicOf[r.UserID]]++
	}
	return calls
}
