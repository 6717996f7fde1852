package tokens_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func TestPairThatCannotBeStoredIsKept(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("database is away"))
		_, err := w.source.Token(t.Context())
		requireStoreError(t, err, "Commit") // not handed out before it is stored
		assert.Equal(t, 1, w.conns.PendingCommits())
		assert.Contains(t, w.logs.String(), "only kept in memory")

		_, err = w.source.Token(t.Context())
		requireStoreError(t, err, "Commit")
		time.Sleep(10 * time.Minute) // longer than any lease
		assert.Equal(t, 1, w.conns.PendingCommits())

		w.store.Break("Commit", nil)
		require.NoError(t, w.conns.Close(t.Context()))
		assert.Zero(t, w.conns.PendingCommits())
		w.requireToken(t, "access-1")
		assert.Equal(t, "refresh-1", w.record(t).Token.RefreshToken.Reveal())
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestBriefStoreFailureDelaysButDoesNotFail(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("failing over"))
		go func() {
			time.Sleep(2 * time.Second)
			w.store.Break("Commit", nil)
		}()
		w.requireToken(t, "access-1")
		assert.Len(t, w.platform.Sent(), 1)
	})
}

func TestOldTokenServesWhileThePairIsKept(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("database is away"))
		for range 3 {
			w.requireToken(t, "access-0")
			time.Sleep(15 * time.Second)
		}
		assert.Len(t, w.platform.Sent(), 1, "the kept pair is not bought twice")
		w.store.Break("Commit", nil)
		require.NoError(t, w.conns.Close(t.Context()))
	})
}

// takeOver runs steal while the answer of a refresh is under way, long after
// the lease has ended.
func takeOver(steal func()) oauthtest.Fault {
	return func(handle func() *http.Response) (*http.Response, error) {
		response := handle()
		steal()
		return response, nil
	}
}

func TestSlowHolderBringsBackAUserThatAPeerMarked(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(takeOver(func() {
			time.Sleep(tokens.DefaultLeaseTTL + time.Second) // this machine hangs
			_, err := w.replica(t).TokenSource(user).Token(t.Context())
			requireReauthorize(t, err, tokens.ReasonInvalidGrant) // spent, by the one that hangs
		}))
		w.requireToken(t, "access-1")
		record := w.record(t)
		assert.Equal(t, tokens.StateActive, record.State)
		assert.Empty(t, record.Reason)
		assert.Equal(t, "refresh-1", record.Token.RefreshToken.Reveal())
	})
}

func TestSlowHolderAdoptsWhatAPeerCommitted(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(takeOver(func() {
			time.Sleep(tokens.DefaultLeaseTTL + time.Second)
			_, err := w.replica(t).TokenSource(user).Token(t.Context())
			assert.NoError(t, err)
		}))
		w.requireToken(t, "access-2")
		assert.Equal(t, "refresh-2", w.record(t).Token.RefreshToken.Reveal())
	})
}

func TestSlowHolderWaitsForAPeerAtWork(t *testing.T) {
	withFixture(t, oauthtest.RotateOnFirstUse, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(takeOver(func() {
			time.Sleep(tokens.DefaultLeaseTTL + time.Second)
			lease := tokens.Lease{Key: w.conns.Key(user), Version: w.record(t).Version, Owner: "peer"}
			_, err := w.store.Lease(t.Context(), lease, time.Minute)
			assert.NoError(t, err)
		}))
		_, err := w.source.Token(t.Context())
		require.ErrorIs(t, err, tokens.ErrLeased)
		require.NoError(t, w.conns.Close(t.Context())) // the peer died: the pair goes in after all
		w.requireToken(t, "access-1")
	})
}

func TestShutdownReportsPendingCommits(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("database is away"))
		go func() { _, _ = w.source.Token(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.conns.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "1 token pairs not stored")
		w.store.Break("Commit", nil)
		require.NoError(t, w.conns.Close(t.Context()))
	})
}

func TestStoreThatPanicsWhileWritingIsTriedAgain(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		store := oauthtest.Around(w.store, map[string]oauthtest.Interception{"Commit": oauthtest.First(2, panics)})
		requireTokenOf(t, w.on(t, store), "access-1")
	})
}
