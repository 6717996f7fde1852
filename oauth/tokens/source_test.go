package tokens_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/transport"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

var _ transport.TokenReloader = tokens.TokenSource{}

func TestTokenComesFromMemory(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, time.Hour, func(t *testing.T, w *fixture) {
		w.requireToken(t, "access-0")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			token, err := w.source.Token(gone) // a token in memory needs no live context
			require.NoError(t, err)
			assert.Equal(t, oauthtest.USSandbox, token.Environment)
			assert.True(t, token.HasScope("clinic:read"))
		}
		assert.Equal(t, 1, w.store.Count("Load"))
		assert.Empty(t, w.platform.Sent())
	})
}

func TestThousandGoroutinesRefreshOnce(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Delay = 100 * time.Millisecond
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				token, err := w.source.Token(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, "access-1", token.Secret.Reveal())
			})
		}
		wg.Wait()
		assert.Len(t, w.platform.Sent(), 1)
		assert.Equal(t, 1, w.store.Count("Commit"))
	})
}

func TestRefreshOutlivesCanceledCaller(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Delay = 5 * time.Second
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { // starts the refresh and returns early
			_, err := w.source.Token(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(began))
		})
		synctest.Wait()
		wg.Go(func() {
			token, err := w.source.Token(t.Context())
			assert.NoError(t, err)
			assert.Equal(t, "access-1", token.Secret.Reveal())
			assert.Equal(t, 5*time.Second, time.Since(began))
		})
		wg.Wait()
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestCanceledCallerReadsNoStore(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.source.Token(ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, w.store.Count("Load"))
	})
}

func TestTokenIsRefreshedInBackground(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, defaults.TokenLeeway-time.Second, func(t *testing.T, w *fixture) {
		w.platform.Delay = time.Second
		began := time.Now()
		for range 50 {
			w.requireToken(t, "access-0")
		}
		assert.Zero(t, time.Since(began), "no call waits while the token is valid")
		require.NoError(t, w.conns.Close(t.Context()))
		synctest.Wait()
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestShortLifetimeShrinksLeeway(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Minute, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(time.Minute)
		token.Lifetime = time.Minute
		w.save(t, token)
		w.requireToken(t, "access-0")
		time.Sleep(44 * time.Second)
		w.requireToken(t, "access-0")
		assert.Empty(t, w.platform.Sent(), "the leeway is at most a quarter of the lifetime")
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-0")
		require.NoError(t, w.conns.Close(t.Context()))
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestTokenWithoutExpiryIsNotRefreshed(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Minute, func(t *testing.T, w *fixture) {
		token := oauthtest.FirstToken(0)
		token.ExpiresAt, token.Lifetime = time.Time{}, 0
		w.save(t, token)
		w.requireToken(t, "access-0")
		time.Sleep(1000 * time.Hour)
		w.requireToken(t, "access-0")
		assert.Empty(t, w.platform.Sent())
	})
}

func TestRefreshForcesOneCall(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Delay = 100 * time.Millisecond
		rejected, err := w.source.Token(t.Context())
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() {
				token, err := w.source.Refresh(t.Context(), rejected)
				assert.NoError(t, err)
				assert.Equal(t, "access-1", token.Secret.Reveal())
			})
		}
		wg.Wait()
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestRefreshReturnsPeerToken(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		rejected, err := w.source.Token(t.Context())
		require.NoError(t, err)
		newer := oauthtest.FirstToken(2 * time.Hour)
		newer.AccessToken, newer.RefreshToken = api.NewSecret("access-peer"), api.NewSecret("refresh-peer")
		w.save(t, newer)
		token, err := w.source.Refresh(t.Context(), rejected)
		require.NoError(t, err)
		assert.Equal(t, "access-peer", token.Secret.Reveal())
		w.requireToken(t, "access-peer")
		again, err := w.source.Refresh(t.Context(), rejected)
		require.NoError(t, err)
		assert.Equal(t, token, again)
		assert.Empty(t, w.platform.Sent())
	})
}

func TestForcedRefreshIgnoresLesserCall(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		// The token in memory is near its end. A peer has extended it in the store, but the
		// API rejects it.
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		w.requireToken(t, "access-0")
		time.Sleep(56 * time.Minute)
		fresh := oauthtest.FirstToken(time.Hour)
		w.save(t, fresh)
		w.store.Slow = time.Second
		w.requireToken(t, "access-0") // starts a call that accepts the fresh token
		token, err := w.conns.TokenSource(user).Refresh(t.Context(), fresh.Access())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
		assert.Len(t, w.platform.Sent(), 1)
		assert.Equal(t, 3, w.store.Count("Load"), "the first read and one per call")
	})
}

// Ensure caches records by the token source of its caller.
func TestSourcesOfUserCompareEqual(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		var first, second, other api.TokenSource = w.conns.TokenSource(user), w.conns.TokenSource(user), w.conns.TokenSource("other")
		assert.True(t, first == second)
		assert.False(t, first == other)
	})
}

func TestReconnectReachesEverySource(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.connect(t, 1, time.Hour)
		conns := w.replica(t)
		conns.LimitCache(1)
		held, second := conns.TokenSource(user), conns.TokenSource(user)
		requireTokenFrom(t, held, "access-0")
		_, err := conns.TokenSource("many-0").Token(t.Context()) // evicts the user from the cache
		require.NoError(t, err)
		requireTokenFrom(t, second, "access-0")
		_, err = conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		requireTokenFrom(t, held, "access-1")
		requireTokenFrom(t, second, "access-1")
		require.NoError(t, conns.Disconnect(t.Context(), user))
		for _, source := range []tokens.TokenSource{held, second} {
			_, err := source.Token(t.Context())
			requireReauthorize(t, err, tokenstore.ReasonNotConnected)
		}
	})
}

func TestPeerNoticesReconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 2*time.Hour, func(t *testing.T, w *fixture) {
		peer := w.replica(t).TokenSource(user)
		requireTokenFrom(t, peer, "access-0")
		_, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1")) // same account: access-0 still works
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		w.store.Slow = time.Second
		impatient, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, err = peer.Token(impatient)
		require.NoError(t, err)
		requireTokenFrom(t, peer, "access-1") // the read goes on
	})
}

func TestPeerNoticesFailedDisconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 2*time.Hour, func(t *testing.T, w *fixture) {
		peer := w.replica(t).TokenSource(user)
		requireTokenFrom(t, peer, "access-0")
		w.platform.Inject(oauthtest.Responses(500, ""))
		require.Error(t, w.conns.Disconnect(t.Context(), user))
		time.Sleep(30 * time.Second)
		_, err := peer.Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonDisconnecting)
	})
}

// A rejected refresh token does not show that the access token is invalid.
func TestPeerUsesMarkedUsersToken(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		peer := w.replica(t).TokenSource(user)
		requireTokenFrom(t, peer, "access-0")
		w.platform.ForgetAll()
		w.fail(t, tokenstore.ReasonInvalidGrant)
		time.Sleep(50 * time.Minute)
		requireTokenFrom(t, peer, "access-0")

		w.requireToken(t, "access-0")
		w.saveAccess(t, "access-other", time.Hour)
		w.fail(t, tokenstore.ReasonInvalidGrant)
		time.Sleep(30 * time.Second)
		requireTokenFrom(t, peer, "access-other")
		time.Sleep(time.Hour)
		_, err := peer.Token(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
	})
}

// While the token of a marked user is used, its calls retry the refresh token only when a retry
// is due.
func TestMarkedUsersRefreshIsRetriedSeldom(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, 4*time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t)
		w.platform.ForgetAll()
		w.fail(t, tokenstore.ReasonInvalidGrant)
		for range 3 * 60 {
			time.Sleep(time.Second)
			w.requireToken(t, "access-0")
		}
		require.NoError(t, w.conns.Close(t.Context()))
		assert.LessOrEqual(t, len(eventsOf[tokens.Refresh](a)), 3)
	})
}

func TestTokenInMemoryOutlastsStoreOutage(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.requireToken(t, "access-0")
		w.store.Break("Load", errors.New("database is away"))
		time.Sleep(30 * time.Second)
		for range 10 {
			w.requireToken(t, "access-0")
		}
		assert.Equal(t, 2, w.store.Count("Load"), "one check in 30 seconds")
		w.store.Break("Load", nil)
		w.store.Slow = time.Hour
		time.Sleep(30 * time.Second)
		began := time.Now()
		for range 10 {
			w.requireToken(t, "access-0")
		}
		assert.Equal(t, 2*time.Second, time.Since(began))
		time.Sleep(30 * time.Second)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		token, err := w.source.Token(canceled)
		require.NoError(t, err)
		assert.Equal(t, "access-0", token.Secret.Reveal())
		time.Sleep(2 * time.Hour) // the call of the store ends
	})
}

func TestSourceRejectsInvalidUser(t *testing.T) {
	conns := newConns(t, oauthtest.NewPlatform(oauthtest.RotateNever), tokenstore.NewMemoryStore())
	token := api.AccessToken{Secret: api.NewSecret("a"), Environment: oauthtest.USSandbox}
	oauthtest.Each(t, oauthtest.ByName("", "a\nb", "bob ", "a\xff", strings.Repeat("x", 256)), func(t *testing.T, user string) {
		source := conns.TokenSource(user)
		_, err := source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrArgument)
		_, err = source.Refresh(t.Context(), token)
		require.ErrorIs(t, err, api.ErrArgument)
	})
}

func TestSourceRejectsOtherEnvironment(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		canadian := w.conns.Key(user)
		canadian.Environment = oauthtest.CASandbox
		_, err := w.store.Save(t.Context(), canadian, oauthtest.FirstToken(time.Hour))
		require.ErrorIs(t, err, api.ErrWrongEnvironment)

		// If a store returns such a token, the source rejects it.
		lax := &laxStore{tokenstore.NewMemoryStore(), tokenstore.Record{Key: canadian, Token: oauthtest.FirstToken(time.Hour), Version: 1, State: tokenstore.StateActive}}
		conns := newConns(t, w.platform, lax, func(c *settings) { c.Site.Environment = oauthtest.CASandbox })
		source := conns.TokenSource(user)
		_, err = source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrWrongEnvironment)
		_, err = source.Refresh(t.Context(), oauthtest.FirstToken(0).Access())
		require.ErrorIs(t, err, api.ErrWrongEnvironment)
		assert.Empty(t, w.platform.Sent())
	})
}

// laxStore loads any record without a check.
type laxStore struct {
	tokenstore.Store
	record tokenstore.Record
}

func (s *laxStore) Load(context.Context, tokenstore.Key) (tokenstore.Record, error) {
	return s.record, nil
}

func TestStoreFailureIsTyped(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		down := errors.New("database is away")
		w.store.Break("Load", down)
		_, err := w.source.Token(t.Context())
		requireStoreError(t, err, "Load")
		require.ErrorIs(t, err, down)
		assert.Equal(t, "tokens: store: Load of us/sandbox/user-17: database is away", err.Error())

		w.store.Break("Load", nil)
		w.store.Break("Lease", down)
		_, err = w.source.Token(t.Context())
		requireStoreError(t, err, "Lease")
		assert.Empty(t, w.platform.Sent(), "no refresh without a lease")

		w.store.Break("Lease", nil)
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-1")
	})
}

func TestPanickingStoreReturnsError(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		conns := newConns(t, oauthtest.NewPlatform(oauthtest.RotateNever), struct{ tokenstore.Store }{})
		_, err := conns.TokenSource(user).Token(t.Context())
		require.ErrorContains(t, err, "panic with a runtime.")
		require.NoError(t, conns.Close(t.Context()))
	})
}

// A load that began before the user reconnected returns the old token. It is not used after
// Forget.
func TestForgetDiscardsEarlierLoad(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		late := func(_ context.Context, _ tokenstore.Key, work func() error) error {
			err := work()
			time.Sleep(time.Second)
			return err
		}
		store := oauthtest.Around(w.store, map[string]oauthtest.Interception{"Load": oauthtest.First(1, late)})
		w.source = w.on(t, store).TokenSource(user)
		var before sync.WaitGroup
		before.Go(func() { w.requireToken(t, "access-0") })
		time.Sleep(time.Second / 2)
		w.saveAccess(t, "access-new", time.Hour)
		w.source.Forget()
		w.requireToken(t, "access-new")
		before.Wait()
		w.requireToken(t, "access-new")
	})
}
