package dispensarytest

import (
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/faults"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Server is a whole dispensary platform for one region: API, authorize page,
// webhook sender, and the platform's own users. It is safe for concurrent use,
// and shares nothing with other servers that either could notice.
//
// The people who use the platform itself are the second actor. What they do makes
// events, which actions return; what the integrator does through the API never does:
//
//	order, event, err := fake.Orders.Place(patient.ID, model.NewOrder{})
//	err = fake.Webhooks.WaitDelivered(ctx, event.ID)
//
// Actions fail with an [*model.ActionError] and change nothing then. The events of an
// action that makes none have no ID.
type Server struct {
	Patients  Patients
	Plans     Plans
	Protocols Protocols
	Orders    Orders
	Products  Products
	Clinics   Clinics
	Webhooks  Webhooks
	Tokens    Tokens

	set        settings
	app        model.Application
	clock      *clock.Clock
	tokens     *tokens.Store
	journal    *Journal
	faults     faults.Set
	behaviors  behavior.Current
	limit      *FaultHandle // of the behavior rate-limit
	requestIDs ids.Requests
	changes    clock.Notifier

	store  *store.Store
	sender *webhooks.Sender
	people *people.People
	pages  *pages.Pages
	api    *httpapi.API

	origin      string
	listener    net.Listener // nil in memory
	net         *memhttp.Network
	http        *http.Server      // nil in memory
	certificate *x509.Certificate // nil without TLS
	client      *http.Client
	once        sync.Once
	closed      error
}

// New starts a platform for one test and closes it with the test: on loopback
// HTTP, unless [WithTLS] or [WithInMemory] says otherwise. A wrong option fails
// the test at once. A test that fails leaves a page that tells what happened; see
// [Server.WriteTimeline].
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.leaveTimeline(t)
		if err := s.Close(); err != nil {
			t.Errorf("dispensarytest: close: %v", err)
		}
	})
	return s
}

// Start starts a platform without a test. The caller closes it.
func Start(opts ...Option) (*Server, error) {
	set, err := configure(opts)
	if err != nil {
		return nil, err
	}
	s := &Server{set: set, clock: set.clock, net: memhttp.New()}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.build()
	s.serve()
	if set.webhook != nil {
		if err := s.Webhooks.Register(set.webhook.URL, set.webhook.Types...); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// build creates all parts of a platform that has an origin.
func (s *Server) build() {
	set, seed := s.set, store.RegionSeed(s.set.seed, s.set.region)
	s.app = model.Application{
		Name:     "Example EHR",
		ClientID: ids.Secret(seed, "client id")[:40], ClientSecret: ids.Secret(seed, "client secret"),
		RedirectURI:   set.redirectURI,
		WebhookSecret: ids.Secret(seed, "webhook secret"), ChallengeToken: ids.Secret(seed, "challenge")[:32],
	}
	s.journal = &Journal{srv: s, limit: set.journalLimit}
	s.store = &store.Store{World: newWorld(set)}
	s.tokens = tokens.New(tokens.Config{Clock: s.clock, Changes: &s.changes, Users: s.store}, set.behaviors.Rotation, set.scopes)
	s.faults.Changes = &s.changes
	s.clock.Watch(&s.changes)
	s.putBehaviors(set.behaviors)
	s.requestIDs.Base = ids.Mix(seed ^ 0x5e71a1)
	s.sender = webhooks.New(webhooks.Config{
		Store: s.store, Clock: s.clock, Behaviors: &s.behaviors, Faults: &s.faults, Changes: &s.changes, Network: s.net, App: s.app,
		Given: set.deliveryClient, InMemory: set.inMemory, Parallel: set.parallel,
		EventLimit: set.eventLimit,
	})
	s.people = people.New(people.Config{
		Store: s.store, Clock: s.clock, Behaviors: &s.behaviors, Tokens: s.tokens, Sender: s.sender, Changes: &s.changes,
		Origin: s.origin, EventLimit: set.eventLimit,
	})
	s.Patients, s.Plans, s.Protocols, s.Orders = s.people.Patients, s.people.Plans, s.people.Protocols, s.people.Orders
	s.Products, s.Clinics = s.people.Products, s.people.Clinics
	s.Webhooks, s.Tokens = s.sender, s.tokens
	s.pages = &pages.Pages{
		Store: s.store, People: s.people, Behaviors: &s.behaviors, RequestIDs: &s.requestIDs, Region: set.region, RequireTLS: set.requireTLS,
	}
	s.api = &httpapi.API{
		Store: s.store, Clock: s.clock, Behaviors: &s.behaviors, Tokens: s.tokens, Faults: &s.faults, Sender: s.sender, Clinics: s.people.Clinics,
		RequestIDs: &s.requestIDs, Record: s.journal.add, Closed: s.net.Context.Done(), App: s.app, Origin: s.origin,
		RequireTLS: set.requireTLS, ClinicTokens: set.clinicTokens, KeepBodies: set.keepBodies,
	}
	s.store.World.AddIntegrations(set.integrations)
	if set.snapshot != nil {
		from := set.snapshot.state
		s.tokens.Restore(from.Tokens)
		s.sender.Restore(from.Webhooks)
	}
}

// Close stops the webhook sender and the listener, and drops open connections.
// Deliveries still due are not made. Nothing of the platform runs any more once
// it returns; handlers of the integrator's own are left to themselves. Closing
// twice is fine.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.sender.Close()
		s.clock.Unwatch(&s.changes)
		s.changes.Close()
		s.net.Close()
		if s.http != nil {
			s.closed = s.http.Close()
		}
		if s.client != nil {
			s.client.CloseIdleConnections()
		}
	})
	return s.closed
}

// AuthURL is the browser's address of the platform: users are sent to
// AuthURL + "/oauth/authorize". It is not the API's base address.
func (s *Server) AuthURL() string { return s.origin + httpapi.AuthPath }

// BaseURL is the API's base address, with the /api prefix.
func (s *Server) BaseURL() string { return s.origin + httpapi.BasePath }

// Clock is the platform's clock.
func (s *Server) Clock() *Clock { return &Clock{s.clock} }

// Handler is the platform as a handler, for your own server. The addresses
// the platform gives out are still those of [Server.BaseURL].
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == contractPath && r.Method == http.MethodGet:
			s.serveContract(w)
		case s.pages.Serve(w, r):
		default:
			s.api.ServeHTTP(w, r)
		}
	})
}

// HTTPClient is a client for the platform, and for what [Server.Host] put onto
// its network. It trusts the platform's certificate, follows redirects, and has
// no time-out. Its connections end with the server.
func (s *Server) HTTPClient() *http.Client { return s.client }

// Journal is the record of every request.
func (s *Server) Journal() *Journal { return s.journal }

// Region is the country the platform is in.
func (s *Server) Region() model.Region { return s.set.region }

// Application returns the integrator's registration.
func (s *Server) Application() model.Application {
	app := s.app
	app.Scopes = s.tokens.ApplicationScopes()
	return app
}

// ClinicKey is the key of the first clinic's first integration, for the header
// X-SVC-Clinic-Key. API section: "Authentication" 9.
func (s *Server) ClinicKey() string { return s.ClinicKeys()[0] }

// ClinicKeys are the keys of all integrations of the clinics that are named, or of all
// clinics.
func (s *Server) ClinicKeys(clinicIDs ...string) []string {
	held := s.store
	held.RLock()
	defer held.RUnlock()
	var keys []string
	for i := range table.All(held.World.Integrations) {
		if len(clinicIDs) == 0 || slices.Contains(clinicIDs, i.ClinicID) {
			keys = append(keys, i.Key)
		}
	}
	return keys
}

// Users are the people who can sign in on the authorize page.
func (s *Server) Users() []model.User {
	return s.store.Users()
}

// Events returns the kept events, the oldest first: up to [WithEventLimit] events of the last
// 30 days.
func (s *Server) Events() []model.Event { return s.people.Events() }

// Overview returns up to latest rows of each kind, the newest first, and the totals. It
// takes the same time in a world of any size, in contrast to [Orders.All].
func (s *Server) Overview(latest int) model.Overview { return s.people.Overview(latest) }

// Changes returns a channel that is closed at the next change on the platform: a
// response, an action of its people, a delivery attempt, a move of its clock, a token or
// a fault. It returns false once the platform is closed. A console waits on it between
// refreshes:
//
//	for next, open := fake.Changes(); open; next, open = fake.Changes() {
//		show(fake)
//		<-next
//	}
//
// The passing of time is no change.
func (s *Server) Changes() (next <-chan struct{}, open bool) { return s.changes.Wait() }
