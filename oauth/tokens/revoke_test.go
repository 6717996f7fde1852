package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// revoked returns the access tokens of all revocation requests.
func (w *fixture) revoked() (all []string) {
	routes := w.platform.Routes()
	for i, body := range w.platform.Sent() {
		if routes[i] == "/api/oauth/revoke" {
			all = append(all, body["token"])
		}
	}
	return all
}

// saveOtherAccount stores access-0 as the token of a different account than the account of the
// platform.
func (w *fixture) saveOtherAccount(t *testing.T) oauth.Token {
	t.Helper()
	token := oauthtest.FirstToken(time.Hour)
	token.ResourceOwner.ID = "prac-0"
	w.save(t, token)
	return token
}

// inClinic1 returns the clinic clinic-1 for every user.
func inClinic1(c *settings) {
	c.Tokens.Clinic = func(context.Context, tokenstore.Key, api.AccessToken) (oauth.Clinic, error) {
		return oauth.Clinic{ID: "clinic-1"}, nil
	}
}

func TestReconnectRevokesOtherAccount(t *testing.T) {
	oauthtest.Each(t, map[string]func(*oauth.Token){
		"other owner":  func(token *oauth.Token) { token.ResourceOwner.ID = "prac-0" },
		"other type":   func(token *oauth.Token) { token.ResourceOwner.Type = oauth.ResourceOwnerClinic },
		"other clinic": func(token *oauth.Token) { token.Clinic.ID = "clinic-0" },
	}, func(t *testing.T, change func(*oauth.Token)) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		before := oauthtest.FirstToken(time.Hour)
		change(&before)
		w.save(t, before)
		peer := w.replica(t).TokenSource(user)
		requireTokenFrom(t, peer, "access-0")
		record, err := w.replica(t, inClinic1).Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, []string{"access-0"}, w.revoked())
		assert.Empty(t, record.Token.Replaced)
		assert.Equal(t, w.record(t).Version, record.Version)
		token, err := peer.Refresh(t.Context(), before.Access()) // after the 401
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.Secret.Reveal())
	})
}

func TestDisconnectRevokesReplacedToken(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		record, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Empty(t, w.revoked(), "this could revoke the new grant as well")
		require.Len(t, record.Token.Replaced, 1)
		assert.Equal(t, "refresh-0", record.Token.Replaced[0].RefreshToken.Reveal())

		time.Sleep(3 * time.Hour)
		w.requireToken(t, "access-2")
		assert.Len(t, w.record(t).Token.Replaced, 1, "a refresh keeps it")
		require.NoError(t, w.conns.SetClinic(t.Context(), user, w.record(t).Token.Account(), oauth.Clinic{ID: "clinic-1"}))
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		assert.Equal(t, []string{"access-2", "access-0"}, w.revoked())
		w.requireForgotten(t)
	})
}

func TestReplacedTokenIsRevokedLater(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.saveOtherAccount(t)
		w.platform.Inject(nil, oauthtest.Responses(500, ""))
		record, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err, "the new token is stored")
		require.Len(t, record.Token.Replaced, 1)
		assert.Contains(t, w.logs.String(), "could not revoke")
		require.Equal(t, []string{"access-0"}, w.revoked())

		peer := w.replica(t)
		requireTokenOf(t, peer, "access-1")
		require.NoError(t, peer.Close(t.Context()))
		assert.Equal(t, []string{"access-0", "access-0"}, w.revoked())
		assert.Empty(t, w.record(t).Token.Replaced)
		w.requireToken(t, "access-1")
	})
}

// The user waits for the page, and other replicas wait for the result of the flow.
func TestHangingRevocationDelaysConnectBriefly(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.saveOtherAccount(t)
		w.platform.Inject(oauthtest.Changes(func(*http.Response) { w.platform.Delay = time.Minute }))
		began := time.Now()
		record, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, defaults.LeaseTTL/3, time.Since(began))
		assert.Len(t, record.Token.Replaced, 1)
	})
}

func TestReplacedTokenKeepsNewPair(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		other := oauthtest.FirstToken(time.Hour)
		other.Clinic.ID = "clinic-0"
		w.save(t, other)
		unclear := oauthtest.Responses(404, `{"error":"Not Found"}`)
		w.platform.Inject(nil, unclear, nil, unclear) // exchange, revoke, refresh, revoke
		record, err := w.replica(t, inClinic1).Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		require.Len(t, record.Token.Replaced, 1)
		assert.Equal(t, "access-2", record.Token.Replaced[0].AccessToken.Reveal())
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		assert.Equal(t, []string{"access-0", "access-2", "access-1", "access-2"}, w.revoked())
	})
}

func TestReconnectKeepsDisconnectingGrant(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Responses(500, ""))
		require.Error(t, w.conns.Disconnect(t.Context(), user))
		require.Equal(t, tokenstore.ReasonDisconnecting, w.record(t).Reason)
		_, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		w.requireToken(t, "access-1")
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		assert.Equal(t, []string{"access-0", "access-1", "access-0"}, w.revoked())
	})
}

// The record keeps the grants that are left, even through an outage of the store.
func TestDisconnectContinuesWhereItFailed(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		for range 2 {
			_, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
			require.NoError(t, err)
		}
		w.platform.Inject(nil, oauthtest.Responses(500, ""))
		w.store.Break("Fail", assert.AnError)
		err := w.conns.Disconnect(t.Context(), user)
		require.ErrorIs(t, err, api.ErrServer)
		require.ErrorIs(t, err, assert.AnError)
		w.store.Break("Fail", nil)
		require.NoError(t, w.conns.Close(t.Context()))
		w.requireReauthorize(t, tokenstore.ReasonDisconnecting)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		w.requireForgotten(t)
		assert.Equal(t, []string{"access-2", "access-0", "access-1", "access-0"}, w.revoked())
	})
}

// A disconnection whose progress cannot be stored leaves a new connection alone. The grants of
// other accounts are still revoked.
func TestReconnectDropsProgressOfDisconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		token := w.saveOtherAccount(t)
		token.Replaced = []oauth.ReplacedGrant{{AccessToken: api.NewSecret("access-older"), ResourceOwner: token.ResourceOwner}}
		w.save(t, token)
		w.store.Break("Fail", assert.AnError)
		w.platform.Inject(oauthtest.Times(2, oauthtest.Responses(500, ""))...)
		require.ErrorIs(t, w.conns.Disconnect(t.Context(), user), assert.AnError)
		_, err := w.replica(t).Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		w.store.Break("Fail", nil)
		require.NoError(t, w.conns.Close(t.Context()))
		w.requireToken(t, "access-1")
		assert.Contains(t, w.revoked()[2:], "access-0")
		assert.Contains(t, w.revoked()[2:], "access-older")
	})
}

// Revoking a replaced grant may revoke the user's whole consent.
func TestReplacedTokensWaitForDisconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		for n := range 12 {
			record, err := w.conns.Connect(t.Context(), user, api.NewSecret(fmt.Sprint("code-", n)))
			require.NoError(t, err)
			assert.Len(t, record.Token.Replaced, n+1)
		}
		require.NoError(t, w.conns.Close(t.Context()))
		assert.Empty(t, w.revoked())
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		assert.Len(t, w.revoked(), 13)
	})
}

// A pair that a peer stores between the read and the write of Connect is a grant too.
func TestConnectKeepsPeersPair(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, time.Hour, func(t *testing.T, w *fixture) {
		var asked []string
		store := oauthtest.Around(w.store.Store, map[string]oauthtest.Interception{
			"Save": oauthtest.First(1, func(_ context.Context, _ tokenstore.Key, work func() error) error {
				refreshed := oauthtest.FirstToken(time.Hour)
				refreshed.AccessToken, refreshed.RefreshToken = api.NewSecret("access-peer"), api.NewSecret("refresh-peer")
				refreshed.ResourceOwner.ID = "prac-0"
				w.save(t, refreshed)
				return work()
			}),
		})
		conns := w.on(t, store, func(c *settings) {
			c.Tokens.Verify = func(_ context.Context, grant tokens.Authorization) error {
				asked = append(asked, grant.Previous.ID)
				return nil
			}
		})
		_, err := conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, []string{"prac-1", "prac-0"}, asked, "Verify gets the owner of the replaced token")
		assert.Equal(t, []string{"access-peer"}, w.revoked())
	})
}

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
		w.platform.Inject(oauthtest.Times(2, oauthtest.Responses(503, ""))...)
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
