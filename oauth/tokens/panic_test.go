package tokens_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// Observers that panic are as if they were not there.
func TestObserversThatPanicDoNoHarm(t *testing.T) {
	oauthtest.Each(t, map[string]tokens.Observer{
		"start": {RefreshStart: func(context.Context, tokens.Refresh) context.Context { panic(canary) }},
		"end":   {RefreshEnd: func(context.Context, tokens.RefreshResult) { panic(canary) }},
	}, func(t *testing.T, o tokens.Observer) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		w.connect(t, 1, -time.Minute)
		ends := 0
		conns := newConns(t, w.platform, w.store, func(c *settings) {
			c.Logger = oauthtest.NewLogger(w.logs)
			c.Tokens.Observers = []tokens.Observer{o, {RefreshEnd: func(context.Context, tokens.RefreshResult) { ends++ }}}
		})
		token, err := conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
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
	limiter := &panickyLimiter{panics: 3}
	type test struct {
		policy tokens.KeepFreshPolicy
		wrap   func(tokens.Store) tokens.Store
		scopes []string
	}
	oauthtest.Each(t, map[string]test{
		"limiter": {policy: tokens.KeepFreshPolicy{Limiter: limiter}},
		"ClaimDue": {wrap: func(s tokens.Store) tokens.Store {
			return &panickyClaims{Store: s, Claimer: s.(tokens.Claimer), claims: 3}
		}},
		"Fail": {scopes: []string{"clinic:write"}, wrap: func(s tokens.Store) tokens.Store {
			return &panickyClaims{Store: s, Claimer: s.(tokens.Claimer), fails: 3}
		}},
	}, func(t *testing.T, test test) {
		w := newFixture(t, oauthtest.RotateAtOnce, 24*time.Hour)
		token := oauthtest.FirstToken(-time.Minute)
		token.UsedAt, token.ConfiguredScope = time.Now(), "catalog:read"
		w.save(t, token)
		var store tokens.Store = w.store
		if test.wrap != nil {
			store = test.wrap(store)
		}
		conns := newConns(t, w.platform, store, func(c *settings) { c.Scopes = test.scopes })
		stop := runs(t, conns, test.policy)
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

type panickyLimiter struct{ panics int }

func (l *panickyLimiter) Wait(context.Context) error {
	if l.panics--; l.panics >= 0 {
		panic(canary)
	}
	return nil
}

type panickyClaims struct {
	tokens.Store
	tokens.Claimer
	claims, fails int
}

func (s *panickyClaims) ClaimDue(ctx context.Context, due tokens.Due) ([]tokens.Record, error) {
	if s.claims--; s.claims >= 0 {
		panic(canary)
	}
	return s.Claimer.ClaimDue(ctx, due)
}

func (s *panickyClaims) Fail(ctx context.Context, lease tokens.Lease, reason tokens.Reason) (tokens.Record, error) {
	if s.fails--; s.fails >= 0 {
		panic(canary)
	}
	return s.Store.Fail(ctx, lease, reason)
}
