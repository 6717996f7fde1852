package tokens_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// overtakenStore lets something happen just before a record is deleted.
type overtakenStore struct {
	*oauthtest.FlakyStore
	meanwhile func()
}

func (s *overtakenStore) DeleteVersion(ctx context.Context, key tokens.Key, version int64) error {
	s.meanwhile()
	return s.FlakyStore.DeleteVersion(ctx, key, version)
}

// A user who connects again on another replica, when the old token has been revoked
// and the record is about to be deleted, stays connected.
func TestDisconnectSparesAConnectionOfTheLastMoment(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		fresh := oauthtest.FirstToken(2 * time.Hour)
		fresh.AccessToken = "fresh"
		store := &overtakenStore{w.store, func() { w.save(t, fresh) }}
		require.NoError(t, w.on(t, store).Disconnect(t.Context(), user))
		assert.Equal(t, "fresh", w.record(t).Token.AccessToken.Reveal())
		w.requireToken(t, "fresh")
	})
}

// A record that was only marked meanwhile still holds the token that was revoked.
func TestDisconnectDeletesWhatAPeerHasMarked(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		store := &overtakenStore{FlakyStore: w.store}
		store.meanwhile = func() {
			store.meanwhile = func() {}
			time.Sleep(tokens.DefaultLeaseTTL + time.Second)
			lease := tokens.Lease{Key: w.conns.Key(user), Version: w.record(t).Version, Owner: "peer"}
			_, err := w.store.Lease(t.Context(), lease, time.Minute)
			require.NoError(t, err)
			_, err = w.store.Fail(t.Context(), lease, tokens.ReasonInvalidGrant)
			require.NoError(t, err)
		}
		require.NoError(t, w.on(t, store).Disconnect(t.Context(), user))
		_, err := w.store.Load(t.Context(), w.conns.Key(user))
		require.ErrorIs(t, err, tokens.ErrNoRecord)
	})
}
