package oauth_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestTokenFromMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, time.Hour)
		w.requireToken(t, "access-0")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			token, err := w.source.Token(gone) // memory needs nobody's leave
			require.NoError(t, err)
			assert.Equal(t, usSandbox, token.Environment)
			assert.True(t, token.HasScope("clinic:read"))
		}
		assert.Equal(t, 1, w.store.count("Load"))
		assert.Empty(t, w.platform.sent())
	})
}

func TestThousandGoroutinesRefreshOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.delay = 100 * time.Millisecond
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				token, err := w.source.Token(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, "access-1", token.Secret.Reveal())
			})
		}
		wg.Wait()
		assert.Len(t, w.platform.sent(), 1)
		assert.Equal(t, 1, w.store.count("Commit"))
	})
}

func TestRebuiltSourcesShareTheFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.delay = 100 * time.Millisecond
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				token, err := w.client.TokenSource(w.store, user).Token(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, "access-1", token.Secret.Reveal())
			})
		}
		wg.Wait()
		assert.Len(t, w.platform.sent(), 1)
		require.NoError(t, w.client.Shutdown(t.Context()))
	})
}

func TestCancelledCallerLeavesTheRefreshGoing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.delay = 5 * time.Second
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { // starts the refresh, and leaves
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
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestCallerWhoIsGoneStartsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := w.source.Token(ctx)
		require.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, w.store.count("Load"))
	})
}

func TestRenewsInTheBackgroundBeforeTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, oauth.DefaultLeeway-time.Second)
		w.platform.delay = time.Second
		began := time.Now()
		for range 50 {
			w.requireToken(t, "access-0")
		}
		assert.Zero(t, time.Since(began), "nobody waits while the token is valid")
		require.NoError(t, w.client.Shutdown(t.Context()))
		synctest.Wait()
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestShortLivedTokensAreNotRenewedByEveryCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Minute)
		token := firstToken(time.Minute)
		token.Lifetime = time.Minute
		w.save(t, token)
		w.requireToken(t, "access-0")
		time.Sleep(44 * time.Second)
		w.requireToken(t, "access-0")
		assert.Empty(t, w.platform.sent(), "the leeway is a quarter of the life at most")
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-0")
		require.NoError(t, w.client.Shutdown(t.Context()))
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestTokenWithoutExpiryIsUsedUntilRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Minute)
		token := firstToken(0)
		token.ExpiresAt, token.Lifetime = time.Time{}, 0
		w.save(t, token)
		w.requireToken(t, "access-0")
		time.Sleep(1000 * time.Hour)
		w.requireToken(t, "access-0")
		assert.Empty(t, w.platform.sent())
	})
}

func TestRefreshForcesOneCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, time.Hour)
		w.platform.delay = 100 * time.Millisecond
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
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestRefreshReturnsWhatAPeerStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, time.Hour)
		rejected, err := w.source.Token(t.Context())
		require.NoError(t, err)
		newer := firstToken(2 * time.Hour)
		newer.AccessToken, newer.RefreshToken = "access-peer", "refresh-peer"
		w.save(t, newer)
		token, err := w.source.Refresh(t.Context(), rejected)
		require.NoError(t, err)
		assert.Equal(t, "access-peer", token.Secret.Reveal())
		w.requireToken(t, "access-peer")
		again, err := w.source.Refresh(t.Context(), rejected)
		require.NoError(t, err)
		assert.Equal(t, token, again)
		assert.Empty(t, w.platform.sent())
	})
}

func TestForcedRefreshIsNotContentWithALesserFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		// One source holds a token near its end; the store holds a fresh one
		// that another source has just seen refused.
		w := newWorld(t, none, time.Hour)
		w.requireToken(t, "access-0")
		time.Sleep(56 * time.Minute)
		fresh := firstToken(time.Hour)
		fresh.AccessToken = "access-refused"
		w.save(t, fresh)
		w.store.slow = time.Second
		w.requireToken(t, "access-0") // starts a flight that finds the fresh one good
		token, err := w.client.TokenSource(w.store, user).Refresh(t.Context(), fresh.Access())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
		assert.Len(t, w.platform.sent(), 1)
		assert.Equal(t, 3, w.store.count("Load"), "the first reading and one a flight")
	})
}

func TestForgetReadsTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		w.requireToken(t, "access-0")
		other := firstToken(time.Hour)
		other.AccessToken = "access-other"
		w.save(t, other)
		w.requireToken(t, "access-0")
		w.source.Forget()
		w.requireToken(t, "access-other")
	})
}

func TestSourceRefusesBadArguments(t *testing.T) {
	t.Parallel()
	client := newClient(t, newPlatform(none))
	token := api.AccessToken{Secret: "a", Environment: usSandbox}
	for name, source := range map[string]*oauth.UserTokenSource{
		"no store":         client.TokenSource(nil, user),
		"no user":          client.TokenSource(oauth.NewMemoryStore(), ""),
		"unusable user":    client.TokenSource(oauth.NewMemoryStore(), "a\nb"),
		"incomparable":     client.TokenSource(sliceStore{}, user),
		"space about user": client.TokenSource(oauth.NewMemoryStore(), "bob "),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := source.Token(t.Context())
			require.ErrorIs(t, err, api.ErrInvalidArgument)
			_, err = source.Refresh(t.Context(), token)
			require.ErrorIs(t, err, api.ErrInvalidArgument)
			source.Refused(t.Context(), token)
		})
	}
}

type sliceStore struct {
	oauth.Store
	_ []int
}

func TestTokensOfAnotherEnvironmentAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		canadian := w.client.Key(user)
		canadian.Environment = caSandbox
		_, err := w.store.Save(t.Context(), canadian, firstToken(time.Hour))
		require.ErrorIs(t, err, api.ErrWrongEnvironment)

		// A store that lets it through is caught as well.
		client := newClient(t, w.platform, func(c *oauth.Config) { c.Site.Environment = caSandbox })
		lax := laxStore{oauth.NewMemoryStore(), oauth.Record{Key: canadian, Token: firstToken(time.Hour), Version: 1, State: oauth.StateActive}}
		source := client.TokenSource(&lax, user)
		_, err = source.Token(t.Context())
		require.ErrorIs(t, err, api.ErrWrongEnvironment)
		_, err = source.Refresh(t.Context(), firstToken(0).Access())
		require.ErrorIs(t, err, api.ErrWrongEnvironment)
		assert.Empty(t, w.platform.sent())
	})
}

// laxStore loads what it was given, whatever that is.
type laxStore struct {
	oauth.Store
	record oauth.Record
}

func (s *laxStore) Load(context.Context, oauth.Key) (oauth.Record, error) { return s.record, nil }

func TestStoreFailureIsTyped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Minute)
		down := errors.New("database is away")
		w.store.breaks("Load", down)
		_, err := w.source.Token(t.Context())
		var problem *oauth.StoreError
		require.ErrorAs(t, err, &problem)
		require.ErrorIs(t, err, down)
		assert.Equal(t, "Load", problem.Op)
		assert.Equal(t, "dispensary: token store: Load of us/sandbox/user-17: database is away", err.Error())

		w.store.breaks("Load", nil)
		w.store.breaks("Lease", down)
		_, err = w.source.Token(t.Context())
		require.ErrorAs(t, err, &problem)
		assert.Equal(t, "Lease", problem.Op)
		assert.Empty(t, w.platform.sent(), "without a lease nothing is refreshed")

		w.store.breaks("Lease", nil)
		time.Sleep(2 * time.Second)
		w.requireToken(t, "access-1")
	})
}

func TestPanickingStoreEndsNoProgram(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client := newClient(t, newPlatform(none))
		_, err := client.TokenSource(&panickyStore{}, user).Token(t.Context())
		require.ErrorContains(t, err, "panic with a runtime.")
		require.NoError(t, client.Shutdown(t.Context()))
	})
}

type panickyStore struct{ oauth.Store }
