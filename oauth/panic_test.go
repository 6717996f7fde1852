package oauth_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/oauth"
)

// Observers that panic are as if they were not there.
func TestObserversThatPanicDoNoHarm(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]oauth.Observer{
		"start": {RefreshStart: func(context.Context, oauth.Refresh) context.Context { panic(canary) }},
		"end":   {RefreshEnd: func(context.Context, oauth.RefreshResult) { panic(canary) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, -time.Minute)
				w.connect(t, 1, -time.Minute)
				ends := 0
				client := newClient(t, w.platform, func(c *oauth.Config) {
					c.Logger = newLogger(w.logs)
					c.Observers = []oauth.Observer{o, {RefreshEnd: func(context.Context, oauth.RefreshResult) { ends++ }}}
				})
				token, err := client.TokenSource(w.store, user).Token(t.Context())
				require.NoError(t, err)
				assert.Equal(t, "access-1", token.Secret.Reveal())
				stop := runs(t, client, w.store, oauth.RefreshPolicy{})
				time.Sleep(time.Minute)
				stop()
				assert.Len(t, w.platform.sent(), 2)
				assert.Equal(t, 2, ends)
				assert.Contains(t, w.logs.String(), "an observer panicked")
				assert.NotContains(t, w.logs.String(), canary)
			})
		})
	}
}

// A transport, or an observer of calls, that panics or ends its goroutine leaves no
// lease behind.
func TestNoLeaseIsLeftBehindByAPanic(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(){"panic": func() { panic(canary) }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, -time.Minute)
				client := newClient(t, roundTripper(func(*http.Request) (*http.Response, error) { leave(); return nil, nil }))
				_, err := client.TokenSource(w.store, user).Token(t.Context())
				require.Error(t, err)
				assert.NotContains(t, err.Error(), canary)
				began := time.Now()
				w.requireToken(t, "access-1")
				assert.Zero(t, time.Since(began), "another replica has its turn")
			})
		})
	}
}

// A token that Verify panicked at is revoked.
func TestVerifyThatPanicsLeavesNoTokenBehind(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		panics := func(context.Context, oauth.Authorization) error { panic(canary) }
		assert.Panics(t, func() { _, _ = w.client.Connect(t.Context(), w.store, user, "code-1", panics) })
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, w.platform.routes)
		w.requireToken(t, "access-0")

		s, b := newSite(t, func(_ *oauth.Config, h *oauth.HandlerConfig) { h.Verify = panics }), newBrowser()
		answer := b.back(s, code(b.begin(t, s, "")))
		assert.Equal(t, http.StatusBadGateway, answer.StatusCode)
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, s.platform.routes)
		assert.NotContains(t, s.logs.String(), canary)
	})
}

// A limiter, or a store, that panics ends neither the refresher nor the program.
func TestRefresherOutlivesPanics(t *testing.T) {
	t.Parallel()
	limiter := &panickyLimiter{panics: 3}
	for name, test := range map[string]struct {
		policy oauth.RefreshPolicy
		wrap   func(oauth.Store) oauth.Store
		scopes []string
	}{
		"limiter": {policy: oauth.RefreshPolicy{Limiter: limiter}},
		"ClaimDue": {wrap: func(s oauth.Store) oauth.Store {
			return &panickyClaims{Store: s, Claimer: s.(oauth.Claimer), claims: 3}
		}},
		"Fail": {scopes: []string{"clinic:write"}, wrap: func(s oauth.Store) oauth.Store {
			return &panickyClaims{Store: s, Claimer: s.(oauth.Claimer), fails: 3}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, immediate, 24*time.Hour)
				token := firstToken(-time.Minute)
				token.UsedAt, token.ConfiguredScope = time.Now(), "catalog:read"
				w.save(t, token)
				var store oauth.Store = w.store
				if test.wrap != nil {
					store = test.wrap(store)
				}
				client := newClient(t, w.platform, func(c *oauth.Config) { c.Scopes = test.scopes })
				stop := runs(t, client, store, test.policy)
				time.Sleep(10 * time.Minute)
				stop()
				record := w.record(t)
				if test.scopes != nil {
					assert.Equal(t, oauth.ReasonScopesExtended, record.Reason)
				} else {
					assert.Equal(t, "access-1", record.Token.AccessToken.Reveal())
				}
			})
		})
	}
}

type panickyLimiter struct{ panics int }

func (l *panickyLimiter) Wait(context.Context) error {
	if l.panics--; l.panics >= 0 {
		panic(canary)
	}
	return nil
}

type panickyClaims struct {
	oauth.Store
	oauth.Claimer
	claims, fails int
}

func (s *panickyClaims) ClaimDue(ctx context.Context, due oauth.Due) ([]oauth.Record, error) {
	if s.claims--; s.claims >= 0 {
		panic(canary)
	}
	return s.Claimer.ClaimDue(ctx, due)
}

func (s *panickyClaims) Fail(ctx context.Context, lease oauth.Lease, reason oauth.Reason) (oauth.Record, error) {
	if s.fails--; s.fails >= 0 {
		panic(canary)
	}
	return s.Store.Fail(ctx, lease, reason)
}

// A source of x/oauth2 that panics, or ends its goroutine, keeps nobody waiting.
func TestForeignSourceThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, leave := range []func(){func() { panic(canary) }, runtime.Goexit} {
			source := oauth.FromOAuth2(panickySource(func() (*oauth2.Token, error) { leave(); return nil, nil }), usSandbox)
			for range 2 {
				_, err := source.Token(t.Context())
				require.Error(t, err)
				assert.NotContains(t, err.Error(), canary)
			}
		}
	})
}

type panickySource func() (*oauth2.Token, error)

func (f panickySource) Token() (*oauth2.Token, error) { return f() }
