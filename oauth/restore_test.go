package oauth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestRestoreBringsAMarkedUserBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		a := w.watched(t, oauth.BreakerPolicy{})
		w.mark(t)
		require.NoError(t, w.client.Restore(t.Context(), w.store, user))
		record := w.record(t)
		assert.Equal(t, oauth.StateActive, record.State)
		assert.Empty(t, record.Reason)
		assert.Equal(t, "refresh-0", record.Token.RefreshToken.Reveal())
		assert.Len(t, w.platform.sent(), 1, "the platform is not asked")
		assert.Len(t, eventsOf[oauth.Restored](a), 1)
		w.requireToken(t, "access-1")

		require.NoError(t, w.client.Restore(t.Context(), w.store, user), "again is no error")
		assert.Equal(t, "access-1", w.record(t).Token.AccessToken.Reveal())
		assert.Len(t, eventsOf[oauth.Restored](a), 1)
	})
}

// A restored user whose refresh token is dead is marked anew.
func TestRestoreOfADeadGrant(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.platform.forgetAll()
		_, err := w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		require.NoError(t, w.client.Restore(t.Context(), w.store, user))
		_, err = w.source.Token(t.Context())
		requireReauthorize(t, err, oauth.ReasonInvalidGrant)
	})
}

func TestWhomRestoreLeavesAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		requireReauthorize(t, w.client.Restore(t.Context(), w.store, "nobody"), oauth.ReasonNotConnected)
		require.ErrorIs(t, w.client.Restore(t.Context(), w.store, ""), api.ErrInvalidArgument)
		w.platform.inject(times(9, answers(500, ""))...)
		require.Error(t, w.client.Disconnect(t.Context(), w.store, user))
		requireReauthorize(t, w.client.Restore(t.Context(), w.store, user), oauth.ReasonDisconnecting)
		assert.Equal(t, oauth.ReasonDisconnecting, w.record(t).Reason)
		w.store.breaks("Commit", assert.AnError)
		w.platform.replace()
		require.NoError(t, w.client.Disconnect(t.Context(), w.store, user), "no lease is left behind")
	})
}

func TestRestoreWithTheStoreAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, immediate, -time.Minute)
		w.mark(t)
		for _, method := range []string{"Load", "Lease", "Commit"} {
			w.store.breaks(method, assert.AnError)
			var problem *oauth.StoreError
			require.ErrorAs(t, w.client.Restore(t.Context(), w.store, user), &problem)
			assert.Equal(t, method, problem.Op)
			w.store.breaks(method, nil)
			time.Sleep(time.Minute)
		}
		require.NoError(t, w.client.Restore(t.Context(), w.store, user))
	})
}
