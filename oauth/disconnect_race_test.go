package oauth_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
)

// overtakenStore lets something happen just before a record is deleted.
type overtakenStore struct {
	*brittleStore
	meanwhile func()
}

func (s *overtakenStore) DeleteVersion(ctx context.Context, key oauth.Key, version int64) error {
	s.meanwhile()
	return s.brittleStore.DeleteVersion(ctx, key, version)
}

// A user who connects again on another replica, when the old token has been revoked
// and the record is about to be deleted, stays connected.
func TestDisconnectSparesAConnectionOfTheLastMoment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		fresh := firstToken(2 * time.Hour)
		fresh.AccessToken = "fresh"
		store := &overtakenStore{w.store, func() { w.save(t, fresh) }}
		require.NoError(t, w.client.Disconnect(t.Context(), store, user))
		assert.Equal(t, "fresh", w.record(t).Token.AccessToken.Reveal())
		w.requireToken(t, "fresh")
	})
}

// A record that was only marked meanwhile still holds the token that was revoked.
func TestDisconnectDeletesWhatAPeerHasMarked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, none, time.Hour)
		store := &overtakenStore{brittleStore: w.store}
		store.meanwhile = func() {
			store.meanwhile = func() {}
			time.Sleep(oauth.DefaultLeaseTTL + time.Second)
			lease := oauth.Lease{Key: w.client.Key(user), Version: w.record(t).Version, Owner: "peer"}
			_, err := w.store.Lease(t.Context(), lease, time.Minute)
			require.NoError(t, err)
			_, err = w.store.Fail(t.Context(), lease, oauth.ReasonInvalidGrant)
			require.NoError(t, err)
		}
		require.NoError(t, w.client.Disconnect(t.Context(), store, user))
		_, err := w.store.Load(t.Context(), w.client.Key(user))
		require.ErrorIs(t, err, oauth.ErrNoRecord)
	})
}
