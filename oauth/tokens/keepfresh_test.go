package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// connect stores tokens of n users that expire after left.
func (w *fixture) connect(t *testing.T, n int, left time.Duration) {
	t.Helper()
	for i := range n {
		token := oauthtest.FirstToken(left)
		token.AccessToken = api.NewSecret(fmt.Sprintf("access-0-%d", i))
		token.RefreshToken = api.NewSecret(fmt.Sprintf("refresh-0-%d", i))
		token.UsedAt = time.Now()
		w.platform.Allow(token.RefreshToken.Reveal())
		_, err := w.store.Save(t.Context(), w.conns.Key(fmt.Sprintf("many-%d", i)), token)
		require.NoError(t, err)
	}
}

// ask requests the token of user many-i.
func (w *fixture) ask(t *testing.T, i int) error {
	t.Helper()
	_, err := w.conns.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
	return err
}

// runs runs KeepFresh until stop is called. stop waits for its end.
func runs(t *testing.T, conns *tokens.Connections, policy tokens.KeepFreshPolicy) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- conns.KeepFresh(ctx, policy) }()
	return func() {
		cancel()
		assert.NoError(t, <-done)
	}
}

func TestKeepFreshRefreshesBeforeExpiry(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 50, 2*time.Hour)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		time.Sleep(77 * time.Minute)
		assert.Empty(t, w.platform.Sent(), "no token is due yet")
		time.Sleep(13 * time.Minute)
		synctest.Wait()
		half := len(w.platform.Sent())
		assert.Greater(t, half, 10)
		assert.Less(t, half, 40, "spread over time")
		time.Sleep(14 * time.Minute)
		synctest.Wait()
		assert.Len(t, w.platform.Sent(), 50, "each once before its expiry")
		time.Sleep(20 * time.Hour)
		stop()
		for i := range 50 {
			record := w.recordOf(t, i)
			assert.True(t, record.Token.ExpiresAt.After(time.Now()))
			assert.Equal(t, time.Now().Add(-20*time.Hour-104*time.Minute), record.Token.UsedAt, "KeepFresh does not set UsedAt")
		}
	})
}

func TestKeepFreshIgnoresIdleUsers(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 1, 2*time.Hour)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{UsedWithin: 24 * time.Hour})
		defer stop()
		fresh := func() bool {
			record := w.recordOf(t, 0)
			return record.Token.ExpiresAt.After(time.Now())
		}
		time.Sleep(20 * time.Hour)
		assert.True(t, fresh())
		time.Sleep(20 * time.Hour)
		assert.False(t, fresh())
	})
}

// A call of an idle user refreshes the token, and the user counts as active again.
func TestCallReactivatesIdleUser(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Hour, func(t *testing.T, w *fixture) {
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{UsedWithin: 24 * time.Hour})
		defer stop()
		time.Sleep(time.Hour)
		assert.Empty(t, w.platform.Sent(), "KeepFresh ignores a token without UsedAt")
		w.requireToken(t, "access-1")
		assert.Equal(t, time.Now(), w.record(t).Token.UsedAt)
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		assert.True(t, w.record(t).Token.ExpiresAt.After(time.Now()))
		before := len(w.platform.Sent())
		w.source.Forget()
		_, err := w.source.Token(t.Context())
		require.NoError(t, err)
		assert.Len(t, w.platform.Sent(), before, "calls find a fresh token")
	})
}

func TestReplicasShareKeepFresh(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 200, time.Minute)
		w.platform.Delay = 300 * time.Millisecond
		var stops []func()
		for range 4 {
			stops = append(stops, runs(t, w.replica(t), tokens.KeepFreshPolicy{}))
		}
		time.Sleep(30 * time.Second)
		for _, stop := range stops {
			stop()
		}
		assert.Len(t, w.platform.Sent(), 200, "each token once")
		for i := range 200 {
			record := w.recordOf(t, i)
			assert.Equal(t, tokenstore.StateActive, record.State)
		}
	})
}

func TestKeepFreshUsesLimiter(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 30, time.Minute)
		limiter := &ticker{every: time.Second}
		stop := runs(t, w.replica(t, limited(limiter)), tokens.KeepFreshPolicy{})
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		assert.InDelta(t, 10, len(w.platform.Sent()), 2)
		stop()
		assert.Equal(t, api.PriorityRefresh, limiter.priority)
		sent := len(w.platform.Sent())
		time.Sleep(time.Hour)
		assert.Len(t, w.platform.Sent(), sent, "it has stopped")
		records, err := w.store.ClaimDue(t.Context(), tokenstore.Due{Environment: oauthtest.USSandbox, Before: time.Now(), Limit: 100, Owner: "me", TTL: time.Second})
		require.NoError(t, err)
		assert.Len(t, records, 30-sent, "all claims were released or have expired")
	})
}

func limited(limiter api.Limiter) func(*settings) {
	return func(c *settings) { c.Limiter = limiter }
}

// ticker is a limiter with an interval.
type ticker struct {
	every    time.Duration
	mu       sync.Mutex
	priority api.Priority // of the last refresh
}

func (l *ticker) Wait(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.priority = apikit.PriorityOf(ctx)
	select {
	case <-time.After(l.every):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stopping waits for running refreshes, so that no pair is lost.
func TestKeepFreshStopsGracefully(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 1, time.Minute)
		w.platform.Delay = 5 * time.Second
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		time.Sleep(2 * time.Second)
		began := time.Now()
		stop()
		assert.Equal(t, 3*time.Second, time.Since(began))
		record := w.recordOf(t, 0)
		assert.Equal(t, "access-1", record.Token.AccessToken.Reveal())
	})
}

func TestFailuresSlowKeepFresh(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 100, 40*time.Minute)
		w.platform.Inject(oauthtest.Times(100_000, oauthtest.Drops)...)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		time.Sleep(20 * time.Minute)
		assert.Less(t, len(w.platform.Sent()), 600, "the pace would allow 6,000")
		w.platform.Replace()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		fresh := 0
		for i := range 100 {
			record := w.recordOf(t, i)
			if record.Version > 101 {
				fresh++
			}
		}
		assert.Equal(t, 100, fresh, "KeepFresh has caught up")
	})
}

func TestKeepFreshSurvivesStoreOutage(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 1, time.Minute)
		w.store.Break("ClaimDue", errors.New("away"))
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		time.Sleep(10 * time.Minute)
		assert.Less(t, w.store.Count("ClaimDue"), 30)
		w.store.Break("ClaimDue", nil)
		time.Sleep(2 * time.Minute)
		assert.Len(t, w.platform.Sent(), 1)
		assert.Contains(t, w.logs.String(), "could not claim due tokens")
	})
}

// A call joins a running refresh of KeepFresh.
func TestCallsJoinKeepFresh(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 1, -time.Minute)
		w.platform.Delay = 2 * time.Second
		source := w.conns.TokenSource("many-0")
		// Once the call starts first, and once the claim.
		for range 2 {
			done := make(chan error, 1)
			go func() { _, err := source.Token(t.Context()); done <- err }()
			stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
			began := time.Now()
			require.NoError(t, <-done)
			assert.LessOrEqual(t, time.Since(began), 4*time.Second, "no call waits until a lease expires")
			stop()
			time.Sleep(24 * time.Hour)
			source.Forget()
		}
		assert.Len(t, w.platform.Sent(), 2)
	})
}

func TestKeepFreshMarksMissingScopes(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Minute)
		token.ConfiguredScope, token.UsedAt = "catalog:read", time.Now()
		w.save(t, token)
		conns := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"catalog:read", "clinic:read"} })
		stop := runs(t, conns, tokens.KeepFreshPolicy{})
		time.Sleep(time.Minute)
		stop()
		assert.Equal(t, tokenstore.ReasonScopesExtended, w.record(t).Reason)
		assert.Empty(t, w.platform.Sent())
	})
}

// A lost encryption key must not block the refreshes of other users.
func TestKeepFreshSkipsUnreadableTokens(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		const lost, good = 300, 100
		w.store = oauthtest.Around(tokenstore.NewMemoryStore(), nil)
		inner := w.store
		w.store = oauthtest.Around(sealedWith(t, inner, "lost"), nil)
		w.connect(t, lost, time.Minute)
		w.store = oauthtest.Around(sealedWith(t, inner, "new"), nil)
		for i := range good {
			token := oauthtest.FirstToken(10 * time.Minute)
			token.AccessToken, token.UsedAt = api.NewSecret(fmt.Sprint("access-good-", i)), time.Now()
			_, err := w.store.Save(t.Context(), w.conns.Key(fmt.Sprint("good-", i)), token)
			require.NoError(t, err)
		}
		conns := w.replica(t)
		stop := runs(t, conns, tokens.KeepFreshPolicy{})
		time.Sleep(2 * time.Minute)
		for i := range good {
			record, err := conns.Record(t.Context(), fmt.Sprint("good-", i))
			require.NoError(t, err)
			require.Greater(t, time.Until(record.Token.ExpiresAt), time.Hour)
		}
		assert.Contains(t, w.logs.String(), "cannot be read")
		asked := inner.Count("Postpone")
		assert.Equal(t, lost, asked)
		time.Sleep(50 * time.Minute)
		assert.Equal(t, asked, inner.Count("Postpone"), "not before an hour")
		stop()
	})
}

func TestKeepFreshRejectsInvalidPolicy(t *testing.T) {
	t.Parallel()
	conns := newConns(t, oauthtest.NewPlatform(oauthtest.RotateNever), tokenstore.NewMemoryStore())
	for field, policy := range map[string]tokens.KeepFreshPolicy{"UsedWithin": {UsedWithin: -1}, "Interval": {Interval: -1}} {
		var argument *api.ArgumentError
		require.ErrorAs(t, conns.KeepFresh(t.Context(), policy), &argument, field)
		assert.Equal(t, "tokens.KeepFreshPolicy."+field, argument.Field)
	}
}

// KeepFresh does not wait for a slow limiter with the leases of users. A call on another
// replica gets its token at once.
func TestSlowLimiterBlocksNoClaims(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 12, -time.Minute)
		stop := runs(t, w.replica(t, limited(&ticker{every: 4 * time.Second})), tokens.KeepFreshPolicy{})
		defer stop()
		peer := w.replica(t)
		time.Sleep(5 * time.Second) // one is refreshed
		for i := range 12 {
			began := time.Now()
			_, err := peer.TokenSource(fmt.Sprintf("many-%d", i)).Token(t.Context())
			require.NoError(t, err)
			assert.Less(t, time.Since(began), time.Second)
			time.Sleep(900 * time.Millisecond)
		}
		assert.Len(t, w.platform.Sent(), 12)
	})
}

// KeepFresh does not claim more tokens than it has workers.
func TestClaimsNeedFreeWorkers(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 12, -time.Minute)
		w.platform.Delay = 9 * time.Second
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		defer stop()
		time.Sleep(3 * time.Second)
		claimed, err := w.store.ClaimDue(t.Context(), tokenstore.Due{Environment: oauthtest.USSandbox, Before: time.Now(), Limit: 100, Owner: "me", TTL: time.Second})
		require.NoError(t, err)
		assert.Len(t, claimed, 8)
	})
}

// If the limiter blocks, KeepFresh releases its claims. If the store rejects the release, the
// claims expire.
func TestUnreleasedClaimsExpire(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 2, time.Minute)
		w.store.Break("Release", errors.New("away"))
		stop := runs(t, w.replica(t, limited(&closed{open: 1, waits: 1})), tokens.KeepFreshPolicy{})
		defer stop()
		time.Sleep(10 * time.Second)
		assert.Len(t, w.platform.Sent(), 1)
		assert.Equal(t, 1, strings.Count(w.logs.String(), "could not release a lease"))
		time.Sleep(5 * time.Minute)
		assert.Len(t, w.platform.Sent(), 2)
	})
}

// closed is a limiter that allows some refreshes, then rejects some, then allows all.
type closed struct{ open, waits int }

func (c *closed) Wait(context.Context) error {
	if c.open--; c.open >= 0 {
		return nil
	}
	if c.waits--; c.waits >= 0 {
		return errors.New("not now")
	}
	return nil
}

// A claim on a user must not block the write of the user's pending pair.
func TestKeepFreshYieldsToPendingPair(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(-time.Minute)
		token.UsedAt = time.Now()
		w.save(t, token)
		w.store.Break("Commit", errors.New("database is away"))
		_, err := w.source.Token(t.Context())
		requireStoreError(t, err, "Commit")
		time.Sleep(2 * time.Minute)
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		synctest.Wait()
		require.Equal(t, 1, w.store.Count("ClaimDue"))
		w.lease(t, time.Second)
		w.store.Break("Commit", nil)
		stop()
		require.NoError(t, w.conns.Close(t.Context()))
		w.requireToken(t, "access-1")
	})
}

// Callers of a higher priority may join the refresh that a background call has begun.
func TestRefreshOfCallIsInteractive(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		limiter := &ticker{}
		for _, p := range []api.Priority{api.PriorityInteractive, api.PriorityEvent} {
			w.save(t, oauthtest.FirstToken(-time.Minute))
			_, err := w.replica(t, limited(limiter)).TokenSource(user).Token(api.ContextWithPriority(t.Context(), p))
			require.NoError(t, err)
			assert.Equal(t, api.PriorityInteractive, limiter.priority)
		}
	})
}

// Users who have revoked the application do not delay the refreshes of others. Refreshes start
// at most 250 ms after each other, and a rest would take half a second or more.
func TestRejectionsDoNotSlowKeepFresh(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 24*time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 9, time.Minute)
		for i := range 8 { // two whole claims
			w.platform.Kill(fmt.Sprintf("refresh-0-%d", i))
		}
		stop := runs(t, w.conns, tokens.KeepFreshPolicy{})
		time.Sleep(2500 * time.Millisecond)
		stop()
		assert.Len(t, w.platform.Sent(), 9)
	})
}
