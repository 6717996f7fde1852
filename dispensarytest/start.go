package dispensarytest

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/actions"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/ids"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/environ"
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
	s := &Server{set: set, clock: set.clock, front: front{net: memhttp.New()}}
	if err := s.listen(set); err != nil {
		return nil, err
	}
	s.build()
	s.serve(s.handler)
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
	set, seed := s.set, store.EnvironmentSeed(s.set.Seed, s.set.environment)
	s.app = registration(seed, set.redirectURI)
	s.store = &store.Store{}
	s.tokens = tokens.New(tokens.Config{Clock: s.clock, Changes: &s.changes, Users: s.store})
	s.faults.Changes = &s.changes
	s.clock.Watch(&s.changes)
	s.rules.put(set.rules, &s.faults)
	s.requestIDs.Base = ids.Mix(seed ^ 0x5e71a1)
	s.sender = webhooks.New(webhooks.Config{
		Store: s.store, Clock: s.clock, Behaviors: &s.rules.Current, Faults: &s.faults, Changes: &s.changes, Network: s.net, App: s.app,
		Given: set.DeliveryClient, InMemory: set.inMemory, Parallel: set.ParallelDeliveries,
		EventLimit: set.EventLimit,
	})
	acts := actions.New(actions.Config{
		Store: s.store, Clock: s.clock, Behaviors: &s.rules.Current, Tokens: s.tokens, Sender: s.sender, Changes: &s.changes,
		Origin: s.origin, EventLimit: set.EventLimit,
	})
	s.actions = acts
	s.Patients, s.Plans, s.Protocols, s.Orders = &acts.Patients, &acts.Plans, &acts.Protocols, &acts.Orders
	s.Products, s.Clinics, s.Practitioners, s.Variants = &acts.Products, &acts.Clinics, &acts.Practitioners, &acts.Variants
	s.Webhooks, s.Tokens = s.sender, s.tokens
	s.Clock, s.Journal = &Clock{s.clock}, &Journal{changes: &s.changes, clock: s.clock, limit: set.JournalLimit}
	s.handler = handlerOf(&s.requestIDs, &pages.Pages{
		Store: s.store, Actions: acts, Behaviors: &s.rules.Current, RequestIDs: &s.requestIDs, Environment: set.environment, RequireTLS: set.TLSRequired,
	}, &httpapi.API{
		Store: s.store, Clock: s.clock, Behaviors: &s.rules.Current, Tokens: s.tokens, Faults: &s.faults, Sender: s.sender, Clinics: acts.Clinics,
		RequestIDs: &s.requestIDs, Record: s.Journal.add, Closed: s.net.Context.Done(), App: s.app, Origin: s.origin,
		RequireTLS: set.TLSRequired, ClinicTokens: set.ClinicTokens, KeepBodies: set.Bodies,
	})
	s.begin(nil)
}

// begin sets the initial world, consents and deliveries, and the webhook endpoint of an option.
func (s *Server) begin(endpoint *model.Endpoint) {
	s.store.World = s.set.world()
	s.store.World.AddIntegrations(s.set.Integrations)
	consents, deliveries := tokens.State{Scopes: s.set.scopes}, webhooks.NewState()
	if s.set.snapshot != nil {
		consents, deliveries = s.set.snapshot.Tokens, s.set.snapshot.Webhooks
	}
	if endpoint != nil {
		deliveries.Endpoint = endpoint
	}
	s.tokens.Restore(consents)
	s.sender.Restore(deliveries)
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

// Handler returns the platform as a handler for your own server. URLs in its responses still
// begin with the URLs of [Server.Site].
func (s *Server) Handler() http.Handler { return s.handler }

// HTTPClient returns a client for the platform and for handlers from [Server.Host]. It trusts
// the platform's certificate, follows redirects, and has no timeout. Its connections end with
// the server.
func (s *Server) HTTPClient() *http.Client { return s.client }

// Certificate returns the certificate of a platform with [WithTLS], for your own client to
// trust. It returns nil without TLS. [Server.HTTPClient] already trusts it.
func (s *Server) Certificate() *x509.Certificate { return s.certificate }

// Host adds your own handler to the platform's network without a socket. [Browser],
// [Server.HTTPClient] and the webhook sender reach it under the origin, for example
// "https://ehr.example.com". It replaces an earlier handler of the origin.
//
// Each request runs on a new goroutine. A panic there appears to the caller as a dropped
// connection. Host works with every kind of platform. Together with [WithInMemory], a whole
// integration runs inside testing/synctest.
func (s *Server) Host(origin string, handler http.Handler) error {
	if err := s.net.Host(origin, handler); err != nil {
		return fmt.Errorf("dispensarytest: Host(%q): %w", origin, err)
	}
	return nil
}

// Site returns the platform for a client: the sandbox of its region, the base URL of the API
// with the prefix /api, and the URL of the pages for a browser. Applications send their users
// to AuthURL + "/oauth/authorize".
func (s *Server) Site() dispensary.Site {
	return dispensary.Site{Environment: s.set.environment, BaseURL: s.origin + httpapi.BasePath, AuthURL: s.origin + httpapi.AuthPath}
}

// Variables returns environment variables for a program that uses the platform, in the form of
// [os.Environ]. It includes the variables of [dispensary.NewFromEnv], without a token, and the
// variables of package integration for this environment, such as
// DISPENSARY_US_SANDBOX_CLIENT_ID, but not DISPENSARY_STORE, _INBOX and the keys. A platform with
// several clinics has no variable for the clinic key, because the key applies to the calls of all
// users: see [Server.ClinicKeys].
func (s *Server) Variables() []string {
	site, app := s.Site(), s.Application()
	baseURL, authURL := environ.Variables(site.Environment)
	prefix := strings.TrimSuffix(baseURL, "BASE_URL")
	variables := []string{
		baseURL + "=" + site.BaseURL, authURL + "=" + site.AuthURL,
		prefix + "CLIENT_ID=" + app.ClientID, prefix + "CLIENT_SECRET=" + app.ClientSecret, prefix + "REDIRECT_URL=" + app.RedirectURI,
		prefix + "WEBHOOK_SECRETS=" + app.WebhookSecret, prefix + "WEBHOOK_CHALLENGE=" + app.ChallengeToken,
	}
	if len(s.Clinics.All()) == 1 {
		variables = append(variables, prefix+"CLINIC_KEY="+s.ClinicKey())
	}
	return variables
}

// Client returns a client that calls as user, with a token of [Tokens]. The zero User is the
// first practitioner, and Client panics if the user is unknown. options follow the client's
// own options, which set the token and the transport. If an option is invalid, every call
// fails with the error of [dispensary.New].
func (s *Server) Client(user model.User, options ...dispensary.Option) *dispensary.Client {
	given := []dispensary.Option{
		dispensary.WithTransport(s.HTTPClient().Transport),
		dispensary.WithTokenSource(s.TokenSource(user)),
	}
	client, err := dispensary.New(s.Site(), slices.Concat(given, options)...)
	if err != nil {
		client, _ = dispensary.New(s.Site(), given[0], dispensary.WithTokenSource(unusable{err})) // these options are valid
	}
	return client
}

// unusable is the token source of a client with an invalid option.
type unusable struct{ err error }

func (u unusable) Token(context.Context) (api.AccessToken, error) { return api.AccessToken{}, u.err }

// TokenSource returns a source of the user's token. It does not refresh the token after its
// end. Without scopes the token has the application's scopes. To test refreshes, use package
// oauth against the platform.
func (s *Server) TokenSource(user model.User, scopes ...string) api.TokenSource {
	token := s.Tokens.Issue(user, scopes...)
	return issued{api.AccessToken{
		Secret:      dispensary.NewSecret(token.AccessToken),
		Environment: s.Site().Environment,
		Account:     api.Account{OwnerType: token.User.Type, OwnerID: token.User.ID, ClinicID: token.User.ClinicID},
		ExpiresAt:   token.ExpiresAt,
	}}
}

type issued struct{ token api.AccessToken }

func (i issued) Token(context.Context) (api.AccessToken, error) { return i.token, nil }
