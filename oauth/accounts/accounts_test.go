package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/connect"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
)

func TestAccountsConnectRefreshDisconnect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, ctx := newFixture(t, 1), t.Context()
		const user = "dr-17"
		client := p.client(t, user)
		_, err := client.Clinic.Get(ctx)
		require.ErrorIs(t, err, dispensary.ErrReauthorize)
		assert.Equal(t, accounts.StatusNotConnected, p.status(t, user))

		p.connect(t, 0, user)
		_, err = client.Clinic.Get(ctx)
		require.NoError(t, err, "the earlier client must work after connecting")
		account, err := p.accounts.Status(ctx, user)
		require.NoError(t, err)
		assert.Equal(t, accounts.StatusConnected, account.Status)
		assert.Equal(t, oauth.ResourceOwnerPractitioner, account.Owner.Type)
		assert.Contains(t, account.Scopes, "catalog:read")
		assert.Equal(t, time.Now().Add(2*time.Hour).Unix(), account.ExpiresAt.Unix())

		time.Sleep(118 * time.Minute)
		assert.Equal(t, accounts.StatusExpiring, p.status(t, user))
		time.Sleep(10 * time.Minute)
		_, err = p.client(t, user).Clinic.Get(ctx)
		require.NoError(t, err)
		assert.Equal(t, accounts.StatusConnected, p.status(t, user))

		p.platforms[0].Tokens.InvalidateAll()
		_, err = client.Clinic.Get(ctx)
		require.ErrorIs(t, err, dispensary.ErrReauthorize, "the API and the token endpoint have rejected the user")
		assert.Equal(t, accounts.StatusMustReauthorize, p.status(t, user))
		require.NoError(t, p.accounts.Restore(ctx, user))
		assert.Equal(t, accounts.StatusExpiring, p.status(t, user), "the API has rejected the access token")
		require.ErrorIs(t, p.accounts.Restore(ctx, ""), api.ErrArgument)

		p.connect(t, 0, user)
		_, err = client.Clinic.Get(ctx)
		require.NoError(t, err)
		require.NoError(t, p.accounts.Disconnect(ctx, user))
		_, err = client.Clinic.Get(ctx)
		require.ErrorIs(t, err, dispensary.ErrReauthorize)
		assert.Equal(t, accounts.StatusNotConnected, p.status(t, user))
		require.NoError(t, p.accounts.Disconnect(ctx, user))
		require.NoError(t, p.accounts.Close(ctx))
		assert.Zero(t, p.accounts.PendingCommits())
		assert.Equal(t, []string{
			"Connected dr-17", "MustReauthorize dr-17", "Restored dr-17", "Connected dr-17", "Disconnected dr-17",
		}, p.events)
		p.platforms[0].Journal.CheckNoUnexpected(t)
	})
}

func TestAccountsSeparateEnvironments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, ctx := newFixture(t, 2), t.Context()
		p.connect(t, 0, "us:dr-17")
		p.connect(t, 1, "ca:dr-17")
		for i, user := range []string{"us:dr-17", "ca:dr-17"} {
			p.platforms[i].Journal.Reset()
			_, err := p.client(t, user).Clinic.Get(ctx)
			require.NoError(t, err)
			assert.Equal(t, 1, len(p.platforms[i].Journal.Requests("clinic.get")))
		}
		var keys []string
		for account, err := range p.accounts.List(ctx, accounts.ListOptions{}) {
			require.NoError(t, err)
			keys = append(keys, account.Key.String())
			assert.Equal(t, accounts.StatusConnected, account.Status)
		}
		assert.Equal(t, []string{"us/sandbox/us:dr-17", "ca/sandbox/ca:dr-17"}, keys)
		canada := p.platforms[1].Site().Environment
		for account, err := range p.accounts.List(ctx, accounts.ListOptions{Environment: canada}) {
			require.NoError(t, err)
			assert.Equal(t, canada, account.Key.Environment)
		}
		client, err := p.accounts.Connections(canada)
		require.NoError(t, err)
		assert.Equal(t, canada, client.Environment())
		assert.Equal(t, "accounts.Accounts{us/sandbox ca/sandbox}", fmt.Sprintf("%+v", p.accounts))

		_, err = p.accounts.Client(ctx, "fr:dr-17")
		require.ErrorContains(t, err, "cannot find the environment of a user")
		_, err = p.accounts.Client(ctx, "unknown:dr-17")
		require.ErrorIs(t, err, api.ErrArgument)
		_, err = p.accounts.Connections("")
		require.ErrorIs(t, err, api.ErrArgument)
	})
}

// A signed-in user must not be asked to sign in only because their environment is unknown.
func TestHandlerReportsFailedLookup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var logs logtest.Buffer
		p := newFixture(t, 2, func(c *accounts.Config) {
			for i := range c.Applications {
				c.Applications[i].Logger = logtest.NewLogger(&logs)
			}
		})
		for user, status := range map[string]int{
			"": http.StatusUnauthorized, " x": http.StatusUnauthorized,
			"fr:x": http.StatusServiceUnavailable, "unknown:x": http.StatusServiceUnavailable,
		} {
			p.user = user
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://ehr-0.example.com/dispensary/connect?return_to=/", nil)
			require.NoError(t, err)
			response, err := p.platforms[0].HTTPClient().Do(request)
			require.NoError(t, err)
			assert.Equal(t, status, response.StatusCode, user)
			require.NoError(t, response.Body.Close())
		}
		assert.Equal(t, 2, strings.Count(logs.String(), `"level":"ERROR"`))
		assert.Contains(t, logs.String(), "unavailable")
	})
}

func TestKeepFreshServesAllEnvironments(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newFixture(t, 2)
		p.connect(t, 0, "us:dr-17")
		p.connect(t, 1, "ca:dr-17")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.accounts.KeepFresh(ctx, tokens.KeepFreshPolicy{}) }()
		time.Sleep(24 * time.Hour)
		cancel()
		require.NoError(t, <-done)
		_, paused := p.accounts.Paused()
		assert.False(t, paused)
		for i, user := range []string{"us:dr-17", "ca:dr-17"} {
			account, err := p.accounts.Status(t.Context(), user)
			require.NoError(t, err)
			assert.Equal(t, accounts.StatusConnected, account.Status)
			sent := len(p.platforms[i].Journal.Requests("oauth.token"))
			_, err = p.client(t, user).Clinic.Get(t.Context())
			require.NoError(t, err)
			assert.Len(t, p.platforms[i].Journal.Requests("oauth.token"), sent, "the call must not refresh a token")
		}
	})
}

func TestConnectExchangesCode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newFixture(t, 1)
		client, err := p.accounts.Connections(p.platforms[0].Site().Environment)
		require.NoError(t, err)
		address, err := client.Client().AuthorizeURL("state-1")
		require.NoError(t, err)
		back, err := p.platforms[0].Approve(address, model.User{})
		require.NoError(t, err)
		code, err := oauth.ParseCallback(back.Query(), "state-1")
		require.NoError(t, err)
		require.NoError(t, p.accounts.Connect(t.Context(), "dr-17", code))
		assert.Equal(t, accounts.StatusConnected, p.status(t, "dr-17"))
		require.ErrorIs(t, p.accounts.Connect(t.Context(), "dr-17", code), oauth.ErrCodeRejected)
		require.ErrorIs(t, p.accounts.Connect(t.Context(), "", code), api.ErrArgument)
	})
}

// If an application gets more scopes, its users must authorize again.
func TestStatusReportsExtendedScopes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newFixture(t, 1)
		p.connect(t, 0, "dr-17")
		record, err := p.store.Load(t.Context(), tokenstore.Key{Environment: p.platforms[0].Site().Environment, User: "dr-17"})
		require.NoError(t, err)
		record.Token.ConfiguredScope = "catalog:read"
		_, err = p.store.Save(t.Context(), record.Key, record.Token)
		require.NoError(t, err)
		later := newFixture(t, 1, func(c *accounts.Config) {
			c.Tokens.Store, c.Applications[0].Scopes = p.store, []string{"catalog:read", "clinic"}
		})
		account, err := later.accounts.Status(t.Context(), "dr-17")
		require.NoError(t, err)
		assert.Equal(t, accounts.StatusMustReauthorize, account.Status)
		assert.Equal(t, tokenstore.ReasonScopesExtended, account.Reason)
		assert.Equal(t, "accounts.Account{us/sandbox/dr-17 must_reauthorize scopes_extended}", fmt.Sprint(account))
	})
}

func TestListStopsEarlyAndOnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newFixture(t, 1)
		environment := p.platforms[0].Site().Environment
		for i := range 1203 {
			token := oauth.Token{AccessToken: dispensary.NewSecret("a"), Environment: environment}
			_, err := p.store.Save(t.Context(), tokenstore.Key{Environment: environment, User: fmt.Sprintf("u-%04d", i)}, token)
			require.NoError(t, err)
		}
		n := 0
		for range p.accounts.List(t.Context(), accounts.ListOptions{}) {
			n++
		}
		assert.Equal(t, 1203, n)
		for range p.accounts.List(t.Context(), accounts.ListOptions{}) {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range p.accounts.List(ctx, accounts.ListOptions{}) {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.ErrorIs(t, p.accounts.KeepFresh(t.Context(), tokens.KeepFreshPolicy{Interval: -1}), api.ErrArgument)
	})
}

func TestNewNamesInvalidField(t *testing.T) {
	t.Parallel()
	environment := dispensary.USSandbox
	good := oauth.Config{
		Site:     dispensary.Site{Environment: environment, BaseURL: "https://platform.example/api", AuthURL: "https://platform.example"},
		ClientID: "id", ClientSecret: dispensary.NewSecret("secret"), RedirectURL: "https://ehr.example/dispensary/callback",
	}
	other := good
	other.Site.Environment = dispensary.CanadaSandbox
	bad := good
	bad.ClientID = ""
	store := tokenstore.NewMemoryStore()
	for want, config := range map[string]accounts.Config{
		"accounts.Config.Applications is empty":   {Tokens: tokens.Config{Store: store}},
		"accounts.Config.Tokens.Store is nil":     {Applications: []oauth.Config{good}},
		"accounts.Config.Locate is nil":           {Applications: []oauth.Config{good, other}, Tokens: tokens.Config{Store: store}},
		"contains two applications of us/sandbox": {Applications: []oauth.Config{good, good}, Tokens: tokens.Config{Store: store}, Locate: locate},
		"oauth.Config.ClientID is empty":          {Applications: []oauth.Config{bad}, Tokens: tokens.Config{Store: store}},
		"WithUserAgent(product) is empty":         {Applications: []oauth.Config{good}, Tokens: tokens.Config{Store: store}, Options: badOptions},
	} {
		_, err := accounts.New(config)
		require.ErrorContains(t, err, want)
	}
	users, err := accounts.New(accounts.Config{Applications: []oauth.Config{good}, Tokens: tokens.Config{Store: store}})
	require.NoError(t, err)
	conns, err := users.Connections(environment)
	require.NoError(t, err)
	for want, config := range map[string]connect.Config{
		"connect.Config.Connections must be left empty": {Connections: conns},
		"User is nil":        {StateKeys: []dispensary.Secret{stateKey}},
		"StateKeys is empty": {User: func(*http.Request) (string, error) { return "", nil }},
	} {
		_, err := users.Handler(config)
		require.ErrorContains(t, err, want)
	}
	for _, user := range []string{"", " x", "a\x00"} {
		_, err := users.Client(t.Context(), user)
		require.ErrorIs(t, err, api.ErrArgument)
		_, err = users.Status(t.Context(), user)
		require.ErrorIs(t, err, api.ErrArgument)
		require.ErrorIs(t, users.Disconnect(t.Context(), user), api.ErrArgument)
	}
}

func badOptions(dispensary.Environment) []dispensary.Option {
	return []dispensary.Option{dispensary.WithUserAgent("")}
}

// Each user's client sends the key of the user's own clinic.
func TestClientSendsClinicKey(t *testing.T) {
	t.Parallel()
	platform := newPlatform(t, 0, dispensarytest.WithTuning(dispensarytest.Tuning{Integrations: 2}))
	keys := platform.ClinicKeys()
	p := newFixtureOn(t, []*dispensarytest.Server{platform}, func(c *accounts.Config) {
		c.ClinicKey = func(_ context.Context, user string) (dispensary.Secret, error) {
			switch user {
			case "first", "second":
				return dispensary.NewSecret(keys[len(user)-len("first")]), nil
			case "none":
				return dispensary.Secret{}, nil
			}
			return dispensary.Secret{}, errors.New("no such clinic")
		}
	})
	seen := map[string]string{}
	for _, user := range []string{"first", "second", "none"} {
		granted := platform.Tokens.Issue(model.User{})
		environment := platform.Site().Environment
		_, err := p.store.Save(t.Context(), tokenstore.Key{Environment: environment, User: user}, oauth.Token{
			AccessToken: dispensary.NewSecret(granted.AccessToken), Environment: environment,
		})
		require.NoError(t, err)
		found, err := p.client(t, user).Clinic.Get(t.Context())
		require.NoError(t, err)
		seen[user] = found.IntegrationID
	}
	assert.NotEqual(t, seen["first"], seen["second"])
	anyone, err := p.accounts.AnyUser(platform.Site().Environment, accounts.ClinicOptions{})
	require.NoError(t, err)
	found, err := anyone.Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, seen["none"], found.IntegrationID, "must send no key, because the user may change")
	_, err = p.accounts.Client(t.Context(), "stranger")
	require.ErrorContains(t, err, "accounts: cannot find the clinic key of a user: no such clinic")

	p = newFixture(t, 1)
	view, err := p.client(t, p.user).With(dispensary.WithClinicKey(dispensary.NewSecret("key")))
	require.NoError(t, err)
	_, err = view.Clinic.Get(t.Context())
	require.ErrorIs(t, err, dispensary.ErrReauthorize, "a view with another clinic key must still call as the user")
}

const limitRequests, limitPer = 200, 5 * time.Minute

// newLimitedFixture returns users with expired tokens and a platform with a rate limit.
func newLimitedFixture(t *testing.T, users int) (f *fixture, rejections interface{ Fired() int }) {
	t.Helper()
	limiter, err := ratelimit.New(limitRequests, limitPer)
	require.NoError(t, err)
	f = newFixture(t, 1, func(c *accounts.Config) { c.Applications[0].Limiter = limiter })
	for i := range users {
		if i%50 == 0 {
			time.Sleep(limitPer) // connecting counts against the limit too
		}
		f.connect(t, 0, fmt.Sprint("us:dr-", i))
	}
	time.Sleep(3 * time.Hour)
	return f, f.platforms[0].Fault(model.Fault{Effect: model.EffectRateLimit, Limit: limitRequests, Window: limitPer})
}

// Refreshes and calls share the limit, so the platform rejects none of them.
func TestRefreshesAndCallsShareLimit(t *testing.T) {
	for name, together := range map[string]bool{"together": true, "one after the other": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, rejections := newLimitedFixture(t, 150)
				began := time.Now()
				var calls sync.WaitGroup
				for i := range 150 {
					calls.Go(func() {
						_, err := f.client(t, fmt.Sprint("us:dr-", i)).Clinic.Get(t.Context())
						assert.NoError(t, err)
					})
					if !together {
						calls.Wait()
					}
				}
				calls.Wait()
				assert.Zero(t, rejections.Fired())
				assert.Less(t, time.Since(began), limitPer+time.Minute)
			})
		})
	}
}

// KeepFresh observes the limit and leaves capacity for calls of people.
func TestKeepFreshObservesLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, rejections := newLimitedFixture(t, 400)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.accounts.KeepFresh(ctx, tokens.KeepFreshPolicy{}) }()
		time.Sleep(2 * limitPer)
		began := time.Now()
		_, err := f.client(t, "us:dr-0").Clinic.Get(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(began), time.Second)
		cancel()
		require.NoError(t, <-done)
		assert.Zero(t, rejections.Fired())
		fresh := 0
		for i := range 400 {
			record, err := f.store.Load(t.Context(), tokenstore.Key{Environment: f.platforms[0].Site().Environment, User: fmt.Sprint("us:dr-", i)})
			require.NoError(t, err)
			if record.Token.ExpiresAt.After(time.Now()) {
				fresh++
			}
		}
		assert.InDelta(t, 2*limitRequests, fresh, limitRequests/5)
	})
}
