package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

var stateKey = dispensary.NewSecret("0123456789abcdef0123456789abcdef")

// fixture is an application with the platforms of one or two countries, without a socket.
type fixture struct {
	platforms []*dispensarytest.Server
	accounts  *accounts.Accounts
	store     *tokenstore.MemoryStore

	mu     sync.Mutex
	events []string
	user   string // the signed-in user
}

var sandboxes = []api.Environment{api.USSandbox, api.CanadaSandbox}

func newFixture(t testing.TB, countries int, changes ...func(*accounts.Config)) *fixture {
	t.Helper()
	var platforms []*dispensarytest.Server
	for i := range countries {
		platforms = append(platforms, newPlatform(t, i))
	}
	return newFixtureOn(t, platforms, changes...)
}

// newPlatform starts the platform of a country.
func newPlatform(t testing.TB, country int, options ...dispensarytest.Option) *dispensarytest.Server {
	t.Helper()
	return dispensarytest.New(t, append([]dispensarytest.Option{
		dispensarytest.WithInMemory(), dispensarytest.WithEnvironment(sandboxes[country]),
		dispensarytest.WithRedirectURI(fmt.Sprintf("https://ehr-%d.example.com/dispensary/callback", country)),
	}, options...)...)
}

func newFixtureOn(t testing.TB, platforms []*dispensarytest.Server, changes ...func(*accounts.Config)) *fixture {
	t.Helper()
	p := &fixture{platforms: platforms, store: tokenstore.NewMemoryStore(), user: "us:dr-17"}
	config := accounts.Config{Tokens: tokens.Config{Store: p.store, Observers: []tokens.Observer{p.observer()}}}
	transports := map[dispensary.Environment]http.RoundTripper{}
	for _, platform := range platforms {
		app := platform.Application()
		config.Applications = append(config.Applications, oauth.Config{
			Site: platform.Site(), ClientID: app.ClientID, ClientSecret: dispensary.NewSecret(app.ClientSecret),
			RedirectURL: app.RedirectURI, Transport: platform.HTTPClient().Transport,
		})
		transports[platform.Site().Environment] = platform.HTTPClient().Transport
	}
	if len(platforms) > 1 {
		config.Locate = locate
	}
	config.Options = func(e dispensary.Environment) []dispensary.Option {
		return []dispensary.Option{dispensary.WithTransport(transports[e])}
	}
	for _, change := range changes {
		change(&config)
	}
	var err error
	p.accounts, err = accounts.New(config)
	require.NoError(t, err)
	p.mount(t)
	return p
}

// locate returns the environment named in the user's ID.
func locate(_ context.Context, user string) (dispensary.Environment, error) {
	country, _, _ := strings.Cut(user, ":")
	e, err := api.ParseEnvironment(country + "/sandbox")
	if country == "unknown" {
		return dispensary.USProduction, nil
	}
	return e, err
}

func (p *fixture) mount(t testing.TB) {
	t.Helper()
	handler, err := p.accounts.Handler(connect.Config{
		StateKeys: []dispensary.Secret{stateKey},
		User: func(r *http.Request) (string, error) {
			if r.URL.RawQuery != "" || len(r.Form) > 0 {
				return "", errors.New("the request of the hook contains a query")
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.user, nil
		},
	})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/dispensary/", func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // as middleware may do
		handler.ServeHTTP(w, r)
	})
	mux.HandleFunc("/done", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "welcome") })
	for i, platform := range p.platforms {
		require.NoError(t, platform.Host(fmt.Sprintf("https://ehr-%d.example.com", i), mux))
	}
}

// observer records the events of users.
func (p *fixture) observer() tokens.Observer {
	note := func(event string, key tokenstore.Key) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, event+" "+key.User)
	}
	return tokens.Observer{
		Connected:       func(_ context.Context, e tokens.Authorization) { note("Connected", e.Key) },
		Disconnected:    func(_ context.Context, key tokenstore.Key) { note("Disconnected", key) },
		MustReauthorize: func(_ context.Context, e *tokens.ReauthorizeError) { note("MustReauthorize", e.Key) },
		Restored:        func(_ context.Context, key tokenstore.Key) { note("Restored", key) },
	}
}

// connect walks a user through the pages.
func (p *fixture) connect(t testing.TB, country int, user string) {
	t.Helper()
	p.mu.Lock()
	p.user = user
	p.mu.Unlock()
	address := fmt.Sprintf("https://ehr-%d.example.com/dispensary/connect?return_to=/done", country)
	response, err := p.platforms[country].Browser(model.User{}).Authorize(t.Context(), address)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, "welcome", string(body))
}

func (p *fixture) client(t testing.TB, user string) *dispensary.Client {
	t.Helper()
	client, err := p.accounts.Client(t.Context(), user)
	require.NoError(t, err)
	return client
}

func (p *fixture) status(t testing.TB, user string) accounts.Status {
	t.Helper()
	account, err := p.accounts.Status(t.Context(), user)
	require.NoError(t, err)
	return account.Status
}

// bubble runs a test in parallel on a fake clock.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}
