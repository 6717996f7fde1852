package dispensarytest

import (
	"testing"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/people"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// New starts a platform for one test and closes it when the test ends. It listens on loopback
// HTTP, except with [WithTLS] or [WithInMemory]. New fails the test at once if an option is
// invalid.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("dispensarytest: close: %v", err)
		}
	})
	return s
}

// Start starts a platform without a test. The caller must close it.
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
			return nil, invalid("WithWebhook", err)
		}
	}
	return s, nil
}

// build creates all parts of the platform. The origin must be set.
func (s *Server) build() {
	set, seed := s.set, store.EnvironmentSeed(s.set.seed, s.set.environment)
	s.app = registration(seed, set.redirectURI)
	s.store = &store.Store{World: set.world()}
	s.tokens = tokens.New(tokens.Config{Clock: s.clock, Changes: &s.changes, Users: s.store}, set.rules.Rotation, set.scopes)
	s.faults.Changes = &s.changes
	s.clock.Watch(&s.changes)
	s.putRules(set.rules)
	s.requestIDs.Base = ids.Mix(seed ^ 0x5e71a1)
	s.sender = webhooks.New(webhooks.Config{
		Store: s.store, Clock: s.clock, Behaviors: &s.rules, Faults: &s.faults, Changes: &s.changes, Network: s.net, App: s.app,
		Given: set.deliveryClient, InMemory: set.inMemory, Parallel: set.parallel,
		EventLimit: set.eventLimit,
	})
	s.people = people.New(people.Config{
		Store: s.store, Clock: s.clock, Behaviors: &s.rules, Tokens: s.tokens, Sender: s.sender, Changes: &s.changes,
		Origin: s.origin, EventLimit: set.eventLimit,
	})
	s.Patients, s.Plans, s.Protocols, s.Orders = s.people.Patients, s.people.Plans, s.people.Protocols, s.people.Orders
	s.Products, s.Clinics = s.people.Products, s.people.Clinics
	s.Practitioners, s.Variants = s.people.Practitioners, s.people.Variants
	s.Webhooks, s.Tokens = s.sender, s.tokens
	s.Clock, s.Journal = &Clock{s.clock}, &Journal{changes: &s.changes, clock: s.clock, limit: set.journalLimit}
	s.handler = s.handle(&pages.Pages{
		Store: s.store, People: s.people, Behaviors: &s.rules, RequestIDs: &s.requestIDs, Environment: set.environment, RequireTLS: set.requireTLS,
	}, &httpapi.API{
		Store: s.store, Clock: s.clock, Behaviors: &s.rules, Tokens: s.tokens, Faults: &s.faults, Sender: s.sender, Clinics: s.people.Clinics,
		RequestIDs: &s.requestIDs, Record: s.Journal.add, Closed: s.net.Context.Done(), App: s.app, Origin: s.origin,
		RequireTLS: set.requireTLS, ClinicTokens: set.clinicTokens, KeepBodies: set.keepBodies,
	})
	s.store.World.AddIntegrations(set.integrations)
	if set.snapshot != nil {
		s.tokens.Restore(set.snapshot.Tokens)
		s.sender.Restore(set.snapshot.Webhooks)
	}
}

// registration returns the application of the integrator, without scopes.
func registration(seed uint64, redirectURI string) model.Application {
	return model.Application{
		Name:     "Example EHR",
		ClientID: ids.Secret(seed, "client id")[:40], ClientSecret: ids.Secret(seed, "client secret"),
		RedirectURI:   redirectURI,
		WebhookSecret: ids.Secret(seed, "webhook secret"), ChallengeToken: ids.Secret(seed, "challenge")[:32],
	}
}
