package tokens_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// watcher records the calls of an observer.
type watcher struct {
	mu    sync.Mutex
	ended []tokens.Refresh
	calls int // of the platform in the context of a refresh
}

type refreshKey struct{}

func (w *watcher) observe(c *settings) {
	c.Observers = append(c.Observers, observe.Observer{CallEnd: func(ctx context.Context, c observe.CallResult) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, inside := ctx.Value(refreshKey{}).(tokens.Refresh); inside && c.Operation == "oauth.token" {
			w.calls++
		}
	}})
	c.Tokens.Observers = append(c.Tokens.Observers, tokens.Observer{}, tokens.Observer{
		RefreshStart: func(ctx context.Context, r tokens.Refresh) context.Context {
			return context.WithValue(ctx, refreshKey{}, r)
		},
		RefreshEnd: func(ctx context.Context, r tokens.Refresh) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if began := (tokens.Refresh{Key: r.Key, Background: r.Background}); ctx.Value(refreshKey{}) == began {
				w.ended = append(w.ended, r)
			}
		},
	})
}

func (w *watcher) outcomes() (all []tokens.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.ended {
		all = append(all, r.Outcome)
	}
	return all
}

// Each refresh is reported once, with its outcome and its duration. Its requests to the
// platform have its context.
func TestObserverSeesRefreshes(t *testing.T) {
	type test struct {
		fault oauthtest.Fault
		store error
		want  tokens.Outcome
	}
	oauthtest.Each(t, map[string]test{
		"done":          {nil, nil, tokens.OutcomeRefreshed},
		"rejected":      {oauthtest.Responses(401, `{"error":"invalid_grant"}`), nil, tokens.OutcomeFailed},
		"misconfigured": {oauthtest.Responses(401, `{"error":"invalid_client"}`), nil, tokens.OutcomeMisconfigured},
		"failed":        {oauthtest.Responses(422, `{}`), nil, tokens.OutcomeFailed},
		"store failed":  {nil, errors.New("away"), tokens.OutcomeStoreFailed},
	}, func(t *testing.T, c test) {
		var watched watcher
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		p.Delay = time.Second
		store := oauthtest.NewFlakyStore()
		conns := newConns(t, p, store, watched.observe)
		_, err := store.Save(t.Context(), conns.Key(user), oauthtest.FirstToken(-time.Minute))
		require.NoError(t, err)
		if c.fault != nil {
			p.Inject(c.fault)
		}
		store.Break("Commit", c.store)
		_, err = conns.TokenSource(user).Token(t.Context())
		assert.Equal(t, c.want == tokens.OutcomeRefreshed, err == nil, err)
		assert.Equal(t, []tokens.Outcome{c.want}, watched.outcomes())
		assert.Equal(t, conns.Key(user), watched.ended[0].Key)
		assert.False(t, watched.ended[0].Background)
		assert.GreaterOrEqual(t, watched.ended[0].Duration, time.Second)
		assert.Equal(t, 1, watched.calls)
		store.Break("Commit", nil)
		require.NoError(t, conns.Close(t.Context()))
	})
}

// If two replicas need a token at the same time, one refreshes it and the other finds the new
// token in the store.
func TestObserverSeesRefreshedAndFound(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		var watched watcher
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		p.Delay = time.Second
		store := tokenstore.NewMemoryStore()
		one, other := newConns(t, p, store, watched.observe), newConns(t, p, store, watched.observe)
		_, err := store.Save(t.Context(), one.Key(user), oauthtest.FirstToken(-time.Minute))
		require.NoError(t, err)
		var wg sync.WaitGroup
		for _, conns := range []*tokens.Connections{one, other} {
			wg.Go(func() {
				_, err := conns.TokenSource(user).Token(t.Context())
				assert.NoError(t, err)
			})
		}
		wg.Wait()
		assert.ElementsMatch(t, []tokens.Outcome{tokens.OutcomeRefreshed, tokens.OutcomeFound}, watched.outcomes())
	})
}

// A panic of the store does not end the program, and the end of the refresh is reported.
func TestObserverSeesPanic(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		var watched watcher
		store := oauthtest.Around(tokenstore.NewMemoryStore(), map[string]oauthtest.Interception{"Lease": panics})
		conns := newConns(t, oauthtest.NewPlatform(oauthtest.RotateNever), store, watched.observe)
		_, err := store.Save(t.Context(), conns.Key(user), oauthtest.FirstToken(-time.Minute))
		require.NoError(t, err)
		_, err = conns.TokenSource(user).Token(t.Context())
		require.Error(t, err)
		assert.Equal(t, []tokens.Outcome{tokens.OutcomeFailed}, watched.outcomes())
	})
}

// A panic of an observer changes nothing else.
func TestPanickingObserversAreIgnored(t *testing.T) {
	oauthtest.Each(t, map[string]tokens.Observer{
		"start": {RefreshStart: func(context.Context, tokens.Refresh) context.Context { panic(canary) }},
		"end":   {RefreshEnd: func(context.Context, tokens.Refresh) { panic(canary) }},
		"event": {Connected: func(context.Context, tokens.Authorization) { panic(canary) }},
	}, func(t *testing.T, o tokens.Observer) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		w.connect(t, 1, -time.Minute)
		ends := 0
		conns := w.replica(t, func(c *settings) {
			c.Tokens.Observers = []tokens.Observer{o, {RefreshEnd: func(context.Context, tokens.Refresh) { ends++ }}}
		})
		requireTokenOf(t, conns, "access-1")
		stop := runs(t, conns, tokens.KeepFreshPolicy{})
		time.Sleep(time.Minute)
		stop()
		assert.Len(t, w.platform.Sent(), 2)
		assert.Equal(t, 2, ends)
		_, err := conns.Connect(t.Context(), "new", api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Contains(t, w.logs.String(), "an observer panicked")
		assert.NotContains(t, w.logs.String(), canary)
	})
}

// If a transport, or an observer of calls, panics or ends its goroutine, the lease is
// released.
func TestPanicReleasesLease(t *testing.T) {
	oauthtest.Each(t, map[string]func(){"panic": func() { panic(canary) }, "goexit": runtime.Goexit}, func(t *testing.T, leave func()) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		conns := newConns(t, oauthtest.RoundTripper(func(*http.Request) (*http.Response, error) { leave(); return nil, nil }), w.store)
		_, err := conns.TokenSource(user).Token(t.Context())
		require.Error(t, err)
		assert.NotContains(t, err.Error(), canary)
		began := time.Now()
		w.requireToken(t, "access-1")
		assert.Zero(t, time.Since(began), "another replica gets the lease at once")
	})
}

// If Verify panics, the token is revoked.
func TestPanickingVerifyRevokesToken(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		panics := func(context.Context, tokens.Authorization) error { panic(canary) }
		assert.Panics(t, func() { _, _ = w.verified(t, panics).Connect(t.Context(), user, api.NewSecret("code-1")) })
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, w.platform.Routes())
		w.requireToken(t, "access-0")
	})
}

// A panic of a limiter or a store ends neither KeepFresh nor the program.
func TestKeepFreshSurvivesPanics(t *testing.T) {
	type test struct {
		limiter api.Limiter
		store   map[string]oauthtest.Interception
		scopes  []string
	}
	oauthtest.Each(t, map[string]test{
		"limiter":  {limiter: &panickyLimiter{panics: 3}},
		"ClaimDue": {store: map[string]oauthtest.Interception{"ClaimDue": oauthtest.First(3, panics)}},
		"Fail":     {store: map[string]oauthtest.Interception{"Fail": oauthtest.First(3, panics)}, scopes: []string{"clinic:write"}},
	}, func(t *testing.T, test test) {
		w := newFixture(t, oauthtest.RotateAtOnce, 24*time.Hour)
		token := oauthtest.FirstToken(-time.Minute)
		token.UsedAt, token.ConfiguredScope = time.Now(), "catalog:read"
		w.save(t, token)
		conns := newConns(t, w.platform, oauthtest.Around(w.store, test.store), func(c *settings) { c.Scopes, c.Limiter = test.scopes, test.limiter })
		stop := runs(t, conns, tokens.KeepFreshPolicy{})
		time.Sleep(10 * time.Minute)
		stop()
		record := w.record(t)
		if test.scopes != nil {
			assert.Equal(t, tokenstore.ReasonScopesExtended, record.Reason)
		} else {
			assert.Equal(t, "access-1", record.Token.AccessToken.Reveal())
		}
	})
}

// panics is a method of a store that panics.
func panics(context.Context, tokenstore.Key, func() error) error { panic(canary) }

type panickyLimiter struct{ panics int }

func (l *panickyLimiter) Wait(context.Context) error {
	if l.panics--; l.panics >= 0 {
		panic(canary)
	}
	return nil
}
