package tokens_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Observers that panic are as if they were not there.
func TestObserversThatPanicDoNoHarm(t *testing.T) {
	oauthtest.Each(t, map[string]tokens.Observer{
		"start": {RefreshStart: func(context.Context, tokens.Refresh) context.Context { panic(canary) }},
		"end":   {RefreshEnd: func(context.Context, tokens.RefreshResult) { panic(canary) }},
		"event": {Event: func(context.Context, tokens.Event) { panic(canary) }},
	}, func(t *testing.T, o tokens.Observer) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		w.connect(t, 1, -time.Minute)
		ends := 0
		conns := newConns(t, w.platform, w.store, func(c *settings) {
			c.Logger = oauthtest.NewLogger(w.logs)
			c.Tokens.Observers = []tokens.Observer{o, {RefreshEnd: func(context.Context, tokens.RefreshResult) { ends++ }}}
		})
		requireTokenOf(t, conns, "access-1")
		stop := runs(t, conns, tokens.KeepFreshPolicy{})
		time.Sleep(time.Minute)
		stop()
		assert.Len(t, w.platform.Sent(), 2)
		assert.Equal(t, 2, ends)
		assert.Contains(t, w.logs.String(), "an observer panicked")
		assert.NotContains(t, w.logs.String(), canary)
	})
}

// A transport, or an observer of calls, that panics or ends its goroutine leaves no
// lease behind.
func TestNoLeaseIsLeftBehindByAPanic(t *testing.T) {
	oauthtest.Each(t, map[string]func(){"panic": func() { panic(canary) }, "goexit": runtime.Goexit}, func(t *testing.T, leave func()) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		conns := newConns(t, oauthtest.RoundTripper(func(*http.Request) (*http.Response, error) { leave(); return nil, nil }), w.store)
		_, err := conns.TokenSource(user).Token(t.Context())
		require.Error(t, err)
		assert.NotContains(t, err.Error(), canary)
		began := time.Now()
		w.requireToken(t, "access-1")
		assert.Zero(t, time.Since(began), "another replica has its turn")
	})
}

// A token that Verify panicked at is revoked.
func TestVerifyThatPanicsLeavesNoTokenBehind(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		panics := func(context.Context, tokens.Authorization) error { panic(canary) }
		assert.Panics(t, func() { _, _ = w.verified(t, panics).Connect(t.Context(), user, "code-1") })
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, w.platform.Routes())
		w.requireToken(t, "access-0")
	})
}

// A limiter, or a store, that panics ends neither the refresher nor the program.
func TestKeepFreshOutlivesPanics(t *testing.T) {
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
		conns := newConns(t, w.platform, oauthtest.Around(w.store, test.store), func(c *settings) { c.Scopes = test.scopes })
		stop := runs(t, conns, tokens.KeepFreshPolicy{Limiter: test.limiter})
		time.Sleep(10 * time.Minute)
		stop()
		record := w.record(t)
		if test.scopes != nil {
			assert.Equal(t, tokens.ReasonScopesExtended, record.Reason)
		} else {
			assert.Equal(t, "access-1", record.Token.AccessToken.Reveal())
		}
	})
}

// panics stands for a method of a store that panics.
func panics(context.Context, tokens.Key, func() error) error { panic(canary) }

type panickyLimiter struct{ panics int }

func (l *panickyLimiter) Wait(context.Context) error {
	if l.panics--; l.panics >= 0 {
		panic(canary)
	}
	return nil
}
