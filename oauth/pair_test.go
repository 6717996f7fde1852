package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
)

func TestPairThatCannotBeStoredIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.store.breaks("Commit", errors.New("database is away"))
		_, err := w.source.Token(t.Context())
		var problem *oauth.StoreError
		require.ErrorAs(t, err, &problem, "not handed out before it is stored")
		assert.Equal(t, "Commit", problem.Op)
		assert.Equal(t, 1, w.client.Unwritten())
		assert.Contains(t, w.logs.String(), "only kept in memory")

		_, err = w.source.Token(t.Context())
		require.ErrorAs(t, err, &problem)
		time.Sleep(10 * time.Minute) // longer than any lease
		assert.Equal(t, 1, w.client.Unwritten())

		w.store.breaks("Commit", nil)
		require.NoError(t, w.client.Shutdown(t.Context()))
		assert.Zero(t, w.client.Unwritten())
		w.requireToken(t, "access-1")
		assert.Equal(t, "refresh-1", w.record(t).Token.RefreshToken.Reveal())
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestBriefStoreFailureDelaysAndFailsNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.store.breaks("Commit", errors.New("failing over"))
		go func() {
			time.Sleep(2 * time.Second)
			w.store.breaks("Commit", nil)
		}()
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.sent(), 1)
	})
}

func TestOldTokenServesWhileThePairIsKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, time.Minute)
		w.store.breaks("Commit", errors.New("database is away"))
		for range 3 {
			w.requireToken(t, "access-0")
			time.Sleep(15 * time.Second)
		}
		assert.Len(t, w.platform.sent(), 1, "the kept pair is not bought twice")
		w.store.breaks("Commit", nil)
		require.NoError(t, w.client.Shutdown(t.Context()))
	})
}

func TestWriteWhoseAnswerWasLostIsRecognized(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		store := &forgetfulStore{Store: w.store}
		token, err := w.client.TokenSource(store, user).Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
		assert.Len(t, w.platform.sent(), 1)
	})
}

// forgetfulStore writes the first pair and says that it failed.
type forgetfulStore struct {
	oauth.Store
	told bool
}

func (s *forgetfulStore) Commit(ctx context.Context, lease oauth.Lease, token oauth.Token) (oauth.Record, error) {
	record, err := s.Store.Commit(ctx, lease, token)
	if !s.told {
		s.told = true
		return oauth.Record{}, errors.New("connection lost")
	}
	return record, err
}

// takeOver runs steal while the answer of a refresh is under way, long after
// the lease has ended.
func takeOver(steal func()) fault {
	return func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		steal()
		return response, nil
	}
}

func TestSlowHolderBringsBackAUserThatAPeerMarked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.inject(takeOver(func() {
			time.Sleep(oauth.DefaultLeaseTTL + time.Second) // this machine hangs
			_, err := w.replica(t).TokenSource(w.store, user).Token(t.Context())
			requireReauthorize(t, err, oauth.ReasonInvalidGrant) // spent, by the one that hangs
		}))
		w.requireToken(t, "access-1")
		record := w.record(t)
		assert.Equal(t, oauth.StateActive, record.State)
		assert.Empty(t, record.Reason)
		assert.Equal(t, "refresh-1", record.Token.RefreshToken.Reveal())
	})
}

func TestSlowHolderAdoptsWhatAPeerCommitted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(takeOver(func() {
			time.Sleep(oauth.DefaultLeaseTTL + time.Second)
			_, err := w.replica(t).TokenSource(w.store, user).Token(t.Context())
			assert.NoError(t, err)
		}))
		w.requireToken(t, "access-2")
		assert.Equal(t, "refresh-2", w.record(t).Token.RefreshToken.Reveal())
	})
}

func TestSlowHolderWaitsForAPeerAtWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, grace, -time.Minute)
		w.platform.inject(takeOver(func() {
			time.Sleep(oauth.DefaultLeaseTTL + time.Second)
			lease := oauth.Lease{Key: w.client.Key(user), Version: w.record(t).Version, Owner: "peer"}
			_, err := w.store.Lease(t.Context(), lease, time.Minute)
			assert.NoError(t, err)
		}))
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, oauth.ErrLeased)
		require.NoError(t, w.client.Shutdown(t.Context())) // the peer died: the pair goes in after all
		w.requireToken(t, "access-1")
	})
}

func TestNewAuthorizationGoesBeforeARefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Minute)
		w.platform.inject(takeOver(func() {
			renewed := firstToken(time.Hour)
			renewed.AccessToken, renewed.RefreshToken = "access-renewed", "refresh-renewed"
			w.save(t, renewed)
		}))
		w.requireToken(t, "access-renewed")
	})
}

func TestUserWhoIsDeletedMeanwhileStaysDeleted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, -time.Minute)
		w.platform.inject(takeOver(func() {
			assert.NoError(t, w.store.Delete(t.Context(), w.client.Key(user)))
		}))
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonNotConnected)
		_, err = w.store.Load(t.Context(), w.client.Key(user))
		require.ErrorIs(t, err, oauth.ErrNoRecord)
	})
}

func TestShutdownTellsWhatIsOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.store.breaks("Commit", errors.New("database is away"))
		go func() { _, _ = w.source.Token(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.client.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "1 token pairs not stored")
		w.store.breaks("Commit", nil)
		require.NoError(t, w.client.Shutdown(t.Context()))
	})
}

func TestStoreThatPanicsWhileWritingIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		store := &explodingStore{Store: w.store, left: 2}
		token, err := w.client.TokenSource(store, user).Token(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
	})
}

type explodingStore struct {
	oauth.Store
	left int
}

func (s *explodingStore) Commit(ctx context.Context, lease oauth.Lease, token oauth.Token) (oauth.Record, error) {
	if s.left--; s.left >= 0 {
		panic("boom " + token.AccessToken.Reveal())
	}
	return s.Store.Commit(ctx, lease, token)
}
