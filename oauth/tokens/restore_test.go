package tokens_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func TestRestoreBringsAMarkedUserBack(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		a := w.watched(t, tokens.BreakerPolicy{})
		w.mark(t)
		require.NoError(t, w.conns.Restore(t.Context(), user))
		record := w.record(t)
		assert.Equal(t, tokens.StateActive, record.State)
		assert.Empty(t, record.Reason)
		assert.Equal(t, "refresh-0", record.Token.RefreshToken.Reveal())
		assert.Len(t, w.platform.Sent(), 1, "the platform is not asked")
		assert.Len(t, eventsOf[tokens.Restored](a), 1)
		w.requireToken(t, "access-1")

		require.NoError(t, w.conns.Restore(t.Context(), user), "again is no error")
		assert.Equal(t, "access-1", w.record(t).Token.AccessToken.Reveal())
		assert.Len(t, eventsOf[tokens.Restored](a), 1)
	})
}

// A restored user whose refresh token is dead is marked anew.
func TestRestoreOfADeadGrant(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.ForgetAll()
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, tokens.ReasonInvalidGrant)
		require.NoError(t, w.conns.Restore(t.Context(), user))
		_, err = w.source.Token(t.Context())
		requireReauthorize(t, err, tokens.ReasonInvalidGrant)
	})
}

func TestWhomRestoreLeavesAlone(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		requireReauthorize(t, w.conns.Restore(t.Context(), "nobody"), tokens.ReasonNotConnected)
		require.ErrorIs(t, w.conns.Restore(t.Context(), ""), api.ErrInvalidArgument)
		w.platform.Inject(oauthtest.Times(9, oauthtest.Answers(500, ""))...)
		require.Error(t, w.conns.Disconnect(t.Context(), user))
		requireReauthorize(t, w.conns.Restore(t.Context(), user), tokens.ReasonDisconnecting)
		assert.Equal(t, tokens.ReasonDisconnecting, w.record(t).Reason)
		w.store.Break("Commit", assert.AnError)
		w.platform.Replace()
		require.NoError(t, w.conns.Disconnect(t.Context(), user), "no lease is left behind")
	})
}

func TestRestoreWithTheStoreAway(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.mark(t)
		for _, method := range []string{"Load", "Lease", "Commit"} {
			w.store.Break(method, assert.AnError)
			var problem *tokens.StoreError
			require.ErrorAs(t, w.conns.Restore(t.Context(), user), &problem)
			assert.Equal(t, method, problem.Op)
			w.store.Break(method, nil)
			time.Sleep(time.Minute)
		}
		require.NoError(t, w.conns.Restore(t.Context(), user))
	})
}
