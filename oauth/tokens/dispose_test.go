package tokens_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// pending starts a refresh on a replica that cannot write to the store, and returns after its
// lease has expired. repaired repairs the store and closes the replica.
func (w *fixture) pending(t *testing.T) (conns *tokens.Connections, repaired func()) {
	t.Helper()
	store := oauthtest.Around(w.store.Store, nil)
	store.Break("Commit", errors.New("database is away"))
	conns = w.on(t, store)
	_, err := conns.TokenSource(user).Token(t.Context())
	requireStoreError(t, err, "Commit")
	time.Sleep(defaults.LeaseTTL + time.Second)
	return conns, func() {
		store.Break("Commit", nil)
		require.NoError(t, conns.Close(t.Context()))
	}
}

func TestDisconnectedUsersPairIsRevoked(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		_, repaired := w.pending(t)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		w.platform.Inject(oauthtest.Times(2, oauthtest.Answers(503, ""))...)
		repaired()
		w.requireForgotten(t)
		assert.Equal(t, []string{"access-0", "access-1", "access-1", "access-1"}, w.revoked())
	})
}

func TestReconnectKeepsPendingPairRevocable(t *testing.T) {
	type test struct {
		owner  string
		marked bool
		want   func(t *testing.T, w *fixture)
	}
	revoked := func(t *testing.T, w *fixture) { assert.Equal(t, []string{"access-1"}, w.revoked()) }
	oauthtest.Each(t, map[string]test{
		"same account": {"prac-1", false, func(t *testing.T, w *fixture) {
			assert.Empty(t, w.revoked())
			require.NoError(t, w.conns.Disconnect(t.Context(), user))
			assert.Equal(t, []string{"access-new", "access-1"}, w.revoked())
		}},
		"other account":    {"prac-2", false, revoked},
		"marked meanwhile": {"prac-1", true, revoked},
	}, func(t *testing.T, test test) {
		w := newFixture(t, oauthtest.RotateAtOnce, -time.Minute)
		_, repaired := w.pending(t)
		next := oauthtest.FirstToken(time.Hour)
		next.AccessToken, next.RefreshToken, next.ResourceOwner.ID = api.NewSecret("access-new"), api.NewSecret("refresh-new"), test.owner
		w.save(t, next)
		if test.marked {
			w.fail(t, tokenstore.ReasonInvalidGrant)
		}
		repaired()
		w.requireToken(t, "access-new")
		test.want(t, w)
	})
}

// Without rotation, the dropped pair and the stored pair are the same grant.
func TestDroppedPairOfSameGrantStays(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		_, repaired := w.pending(t)
		w.requireToken(t, "access-2")
		repaired()
		assert.Empty(t, w.revoked())
		assert.Empty(t, w.record(t).Token.Replaced)
	})
}

func TestPendingPairKeepsLaterChanges(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		_, repaired := w.pending(t)
		moved := oauth.Clinic{ID: "clinic-2", IntegrationID: "integration-2"}
		require.NoError(t, w.conns.SetClinic(t.Context(), user, w.record(t).Token.Account(), moved))
		changed := w.record(t).Token
		changed.Replaced = []oauth.ReplacedGrant{{AccessToken: api.NewSecret("access-older"), ResourceOwner: changed.ResourceOwner}}
		_, err := w.store.Commit(t.Context(), w.lease(t, time.Minute), changed)
		require.NoError(t, err)
		repaired()
		assert.Equal(t, moved, w.record(t).Token.Clinic)
		assert.Equal(t, changed.Replaced, w.record(t).Token.Replaced)
		w.requireToken(t, "access-1")
	})
}

// lost completes a write and loses the response.
func lost(_ context.Context, _ tokenstore.Key, work func() error) error {
	return errors.Join(work(), errors.New("connection reset"))
}

func TestConnectSurvivesLostSaveResponse(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		conns := w.on(t, oauthtest.Around(w.store.Store, map[string]oauthtest.Interception{"Save": lost}))
		record, err := conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, w.record(t).Version, record.Version)
		assert.Empty(t, w.revoked())
		requireTokenOf(t, conns, "access-1")
	})
}

// After a Save with an unknown result, Connect reads the record and revokes the token only if
// it is not stored.
func TestUnknownSaveIsReadBeforeRevocation(t *testing.T) {
	oauthtest.Each(t, map[string]bool{"applied": true, "not applied": false}, func(t *testing.T, applied bool) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		var store *oauthtest.FlakyStore
		store = oauthtest.Around(w.store.Store, map[string]oauthtest.Interception{
			"Save": func(ctx context.Context, key tokenstore.Key, work func() error) error {
				store.Break("Load", errors.New("connection refused"))
				if !applied {
					work = func() error { return nil }
				}
				return lost(ctx, key, work)
			},
		})
		conns := w.on(t, store)
		_, err := conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		requireStoreError(t, err, "Load")
		synctest.Wait()
		assert.Empty(t, w.revoked())
		store.Break("Load", nil)
		require.NoError(t, conns.Close(t.Context()))
		if applied {
			assert.Empty(t, w.revoked())
		} else {
			assert.Equal(t, []string{"access-1"}, w.revoked())
		}
	})
}
