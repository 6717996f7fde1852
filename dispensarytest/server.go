package dispensarytest

import (
	"context"
	"crypto/x509"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/clock"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
)

// Server is a whole dispensary platform for one region: API, authorize page,
// webhook sender, and the platform's own users. It is safe for concurrent use,
// and shares nothing with other servers that either could notice.
type Server struct {
	set        settings
	app        Application
	clock      *clock.Clock
	tokens     *tokenStore
	sender     *sender
	journal    *Journal
	faults     faultSet
	reading    atomic.Pointer[readings]
	limit      *FaultHandle // of SilenceRateLimit
	requestIDs requestIDs
	changes    clock.Notifier

	mu    sync.RWMutex // guards world
	world *world

	origin      string
	net         *memhttp.Network
	http        *http.Server      // nil in memory
	certificate *x509.Certificate // nil without TLS
	client      *http.Client
	once        sync.Once
	closed      error
}

// Application is the integrator's registration in the developer dashboard.
// API section: "Authentication" 2.
type Application struct {
	Name           string
	ClientID       string
	ClientSecret   string
	RedirectURI    string
	Scopes         []string
	WebhookSecret  string // key of the signatures
	ChallengeToken string // what a webhook endpoint answers with
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
	s := build(set)
	if err := s.open(); err != nil {
		_ = s.Close() // the first error is the one to know
		return nil, err
	}
	if set.webhook != nil {
		if err := s.RegisterWebhook(set.webhook.url, set.webhook.types...); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// build makes everything but the listener.
func build(set settings) *Server {
	seed := regionSeed(set.seed, set.region)
	s := &Server{
		set: set, clock: set.clock,
		app: Application{
			Name:     "Example EHR",
			ClientID: secretFor(seed, "client id")[:40], ClientSecret: secretFor(seed, "client secret"),
			RedirectURI:   set.redirectURI,
			WebhookSecret: secretFor(seed, "webhook secret"), ChallengeToken: secretFor(seed, "challenge")[:32],
		},
		tokens:  newTokenStore(set.clock, set.rotation, set.scopes),
		journal: &Journal{limit: set.journalLimit},
		world:   set.newWorld(),
		net:     memhttp.New(),
	}
	s.journal.srv = s
	s.faults.changes = &s.changes
	s.clock.Watch(&s.changes)
	s.read(set.readings)
	s.requestIDs.base = mix(seed ^ 0x5e71a1)
	s.sender = newSender(s)
	s.addIntegrations()
	if set.snapshot != nil {
		s.tokens.restore(set.snapshot.tokens)
		s.sender.restore(set.snapshot.sender)
	}
	return s
}

// Close stops the webhook sender and the listener, and drops open connections.
// Deliveries still due are not made. Nothing of the platform runs any more once
// it returns; handlers of the integrator's own are left to themselves. Closing
// twice is fine.
func (s *Server) Close() error {
	s.once.Do(func() {
		s.sender.close()
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
func (s *Server) AuthURL() string { return s.origin + authPath }

// BaseURL is the API's base address, with the /api prefix.
func (s *Server) BaseURL() string { return s.origin + basePath }

// Clock is the platform's clock.
func (s *Server) Clock() *Clock { return &Clock{s.clock} }

// Handler is the platform as a handler, for a server of one's own. The addresses
// the platform gives out are still those of [Server.BaseURL].
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(s.serve)
}

// HTTPClient is a client for the platform, and for what [Server.Host] put onto
// its network. It trusts the platform's certificate, follows redirects, and has
// no time-out of its own. Its connections end with the server.
func (s *Server) HTTPClient() *http.Client { return s.client }

// Journal is the record of every request.
func (s *Server) Journal() *Journal { return s.journal }

// Region is the country the platform is in.
func (s *Server) Region() Region { return s.set.region }

// Application returns the integrator's registration.
func (s *Server) Application() Application {
	app := s.app
	s.tokens.mu.RLock()
	defer s.tokens.mu.RUnlock()
	app.Scopes = slices.Clone(s.tokens.scopes)
	return app
}

// ClinicKey is the key of the first clinic's first integration, for the header
// X-SVC-Clinic-Key. API section: "Authentication" 9.
func (s *Server) ClinicKey() string { return s.ClinicKeys()[0] }

// ClinicKeys are the keys of all integrations of the clinics that are named, or of all
// clinics.
func (s *Server) ClinicKeys(clinicIDs ...string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	for i := range s.world.integrations.All() {
		if len(clinicIDs) == 0 || slices.Contains(clinicIDs, i.clinicID) {
			keys = append(keys, i.key)
		}
	}
	return keys
}

// Users are the people who can sign in on the authorize page.
func (s *Server) Users() []User {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var users []User
	for u := range s.world.users.All() {
		users = append(users, *u)
	}
	return users
}

func (s *Server) clinicName(id string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.world.clinic(id).Name
}

// WaitDelivered waits until an event was delivered for every integration it
// concerns. It returns an error that says what happened instead when the event
// was not sent at all, has run out of attempts, met a disabled endpoint, or
// waits for a retry on a frozen clock. Nothing is polled.
func (s *Server) WaitDelivered(ctx context.Context, eventID string) error {
	return s.sender.wait(ctx, eventID)
}

// Changes returns a channel that is closed with the next change on the platform: a
// request that was answered, something its people did, an attempt to deliver, a
// move of its clock, a token, a fault. It returns false once the platform is
// closed. Who shows the platform waits for it between two looks:
//
//	for next, open := fake.Changes(); open; next, open = fake.Changes() {
//		show(fake)
//		<-next
//	}
//
// The passing of time is no change: a clock that runs does so all the time.
func (s *Server) Changes() (next <-chan struct{}, open bool) { return s.changes.Wait() }
