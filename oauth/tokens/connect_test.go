package tokens_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"testing"
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

func TestConnectReportsPreviousOwner(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		before := oauthtest.FirstToken(time.Hour)
		before.ResourceOwner.ID = "prac-0"
		w.save(t, before)
		var seen tokens.Authorization
		_, err := w.verified(t, func(_ context.Context, grant tokens.Authorization) error {
			seen = grant
			return nil
		}).Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, tokens.Authorization{
			Key: w.conns.Key(user), Owner: oauth.ResourceOwner{ID: "prac-1", Type: oauth.ResourceOwnerPractitioner},
			Previous: oauth.ResourceOwner{ID: "prac-0", Type: oauth.ResourceOwnerPractitioner}, Scopes: []string{"catalog:read", "clinic:read"},
		}, seen)
		_, err = w.conns.Connect(t.Context(), " ", api.NewSecret("code-1"))
		require.ErrorIs(t, err, api.ErrArgument)
	})
}

// If the previous owner cannot be read, Verify must not be called as if there were none.
func TestConnectNeedsPreviousOwner(t *testing.T) {
	oauthtest.Each(t, map[string]error{"away": errors.New("away"), "unreadable": tokenstore.ErrUnreadable}, func(t *testing.T, problem error) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		w.store.Break("Load", problem)
		_, err := w.verified(t, func(context.Context, tokens.Authorization) error {
			t.Error("Verify was called without the previous owner")
			return nil
		}).Connect(t.Context(), user, api.NewSecret("code-1"))
		requireStoreError(t, err, "Load")
		require.ErrorIs(t, err, problem)
		assert.Equal(t, []string{"/api/oauth/token", "/api/oauth/revoke"}, w.platform.Routes())
		assert.Equal(t, "access-1", w.platform.Sent()[1]["token"])
		w.store.Break("Load", nil)
		assert.Equal(t, "access-0", w.record(t).Token.AccessToken.Reveal())
	})
}

// The code cannot be requested again, so Connect retries a store that fails for a few seconds.
func TestConnectRetriesFailingStore(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.store.Break("Load", errors.New("away"))
		time.AfterFunc(3*time.Second, func() { w.store.Break("Load", nil) })
		var previous string
		_, err := w.verified(t, func(_ context.Context, grant tokens.Authorization) error {
			previous = grant.Previous.ID
			return nil
		}).Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, "prac-1", previous)
	})
}

// Without Verify, an unreadable row does not prevent the connection: the new token replaces
// the row.
func TestConnectReplacesUnreadableRow(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.store.Break("Load", tokenstore.ErrUnreadable)
		_, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		w.store.Break("Load", nil)
		assert.Equal(t, "access-1", w.record(t).Token.AccessToken.Reveal())
	})
}

func TestConnectEndsBackoff(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Responses(500, ""), oauthtest.Responses(500, ""))
		w.requireFailure(t, api.ErrServer)
		_, err := w.conns.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.NoError(t, err)
		w.requireToken(t, "access-1")
	})
}

func TestDisconnectRevokesAndDeletes(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		w := newFixture(t, oauthtest.RotateNever, -time.Hour) // an expired token can be revoked
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		assert.Equal(t, []string{"/api/oauth/revoke"}, w.platform.Routes())
		assert.Equal(t, "access-0", w.platform.Sent()[0]["token"])
		w.requireForgotten(t)
		require.NoError(t, w.conns.Disconnect(t.Context(), user), "Disconnect can be repeated")
		assert.Len(t, w.platform.Sent(), 1)
		require.ErrorIs(t, w.conns.Disconnect(t.Context(), ""), api.ErrArgument)
	})
}

func TestFailedDisconnectMarksUser(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{
		"500": oauthtest.Responses(500, ""), "reset": oauthtest.Drops, "429": oauthtest.RetryAfter("1"), "invalid_client": oauthtest.Responses(401, `{"error":"invalid_client"}`),
	}, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		w.platform.Inject(oauthtest.Times(9, f)...)
		require.Error(t, w.conns.Disconnect(t.Context(), user))
		record := w.record(t)
		assert.Equal(t, tokenstore.StateReauthorize, record.State)
		assert.Equal(t, tokenstore.ReasonDisconnecting, record.Reason)
		w.requireReauthorize(t, tokenstore.ReasonDisconnecting)
		w.platform.Replace()
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		w.requireForgotten(t)
		assert.NotContains(t, w.platform.Routes(), "/api/oauth/token", "the failure leaves nothing open")
	})
}

// A token unknown to the platform need not be revoked.
func TestDisconnectAcceptsInvalidGrant(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Responses(401, `{"error":"invalid_grant"}`))
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
	})
}

// requireRevokedLast asserts that the last request revoked this token.
func (w *fixture) requireRevokedLast(t *testing.T, access string) {
	t.Helper()
	sent := w.platform.Sent()
	require.Equal(t, access, sent[len(sent)-1]["token"])
}

// unknown contains possible responses of a platform to the revocation of an unknown token.
var unknown = map[string]oauthtest.Fault{
	"bare 401":        oauthtest.Responses(401, ``),
	"invalid_token":   oauthtest.Responses(401, `{"error":"invalid_token"}`),
	"invalid_request": oauthtest.Responses(400, `{"error":"invalid_request","error_description":"The token is not known."}`),
	"404":             oauthtest.Responses(404, `{"error":"Not Found"}`),
}

// If the response does not show that the token is forgotten, the token endpoint does. So a
// user who revoked the application at the platform can be disconnected here.
func TestDisconnectAcceptsForgottenToken(t *testing.T) {
	oauthtest.Each(t, unknown, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateAtOnce, time.Hour)
		w.platform.ForgetAll()
		w.platform.Inject(f)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		w.requireForgotten(t)

		// An expired token without a refresh token needs no revocation.
		ended := oauthtest.FirstToken(-time.Minute)
		ended.RefreshToken = api.Secret{}
		w.save(t, ended)
		w.platform.Inject(f)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
	})
}

// A platform that rejects the revocation but still refreshes has not forgotten the token. The
// new pair is revoked, or stays in the record until it is.
func TestDisconnectRevokesRefreshedPair(t *testing.T) {
	unclear := maps.Clone(unknown)
	delete(unclear, "invalid_token")
	oauthtest.Each(t, unclear, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateAtOnce, time.Hour)
		w.platform.Inject(f, nil, f)
		require.Error(t, w.conns.Disconnect(t.Context(), user))
		record := w.record(t)
		assert.Equal(t, tokenstore.ReasonDisconnecting, record.Reason)
		assert.Equal(t, "refresh-1", record.Token.RefreshToken.Reveal(), "otherwise it could not be revoked")
		w.platform.Inject(f)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		w.requireRevokedLast(t, "access-2")
		w.requireForgotten(t)
	})
}

// Rejected credentials show nothing about the token.
func TestWrongCredentialsFailDisconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Inject(oauthtest.Times(9, oauthtest.Responses(401, `{"error":"invalid_client"}`))...)
		var rejection *oauth.ConfigError
		require.ErrorAs(t, w.conns.Disconnect(t.Context(), user), &rejection)
		assert.Equal(t, tokenstore.ReasonDisconnecting, w.record(t).Reason)
		assert.Equal(t, "refresh-0", w.record(t).Token.RefreshToken.Reveal())
	})
}

// Disconnect waits for a running refresh and revokes its pair.
func TestDisconnectWaitsForRefresh(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.platform.Delay = 3 * time.Second
		done := make(chan error, 1)
		go func() { _, err := w.source.Token(t.Context()); done <- err }()
		time.Sleep(time.Second)
		require.NoError(t, w.replica(t).Disconnect(t.Context(), user))
		require.NoError(t, <-done)
		w.requireRevokedLast(t, "access-1")
	})
}

func TestDisconnectReportsStuckLease(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.lease(t, time.Hour)
		require.ErrorIs(t, w.conns.Disconnect(t.Context(), user), tokenstore.ErrLeased)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, w.conns.Disconnect(ctx, user), context.DeadlineExceeded)
		assert.Empty(t, w.platform.Sent())
	})
}

// A user who reconnects while the old token is being revoked stays connected.
func TestDisconnectKeepsNewConnection(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{"revoked": nil, "not revoked": oauthtest.Responses(500, "")}, func(t *testing.T, f oauthtest.Fault) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		w.platform.Inject(func(handle func() *http.Response) (*http.Response, error) {
			w.saveAccess(t, "fresh", 2*time.Hour)
			if f != nil {
				return f(handle)
			}
			return oauthtest.Respond(200, `{}`), nil
		})
		_ = w.conns.Disconnect(t.Context(), user)
		assert.Equal(t, tokenstore.StateActive, w.record(t).State)
		w.requireToken(t, "fresh")
	})
}

// beforeDeletion returns a store that calls meanwhile before it first deletes a record.
func (w *fixture) beforeDeletion(meanwhile func()) tokenstore.Store {
	return oauthtest.Around(w.store, map[string]oauthtest.Interception{
		"DeleteVersion": oauthtest.First(1, func(_ context.Context, _ tokenstore.Key, work func() error) error {
			meanwhile()
			return work()
		}),
	})
}

// A user stays connected after a reconnect on another replica, even between the revocation of
// the old token and the deletion of the record.
func TestDisconnectKeepsLateReconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		store := w.beforeDeletion(func() { w.saveAccess(t, "fresh", 2*time.Hour) })
		require.NoError(t, w.on(t, store).Disconnect(t.Context(), user))
		assert.Equal(t, "fresh", w.record(t).Token.AccessToken.Reveal())
		w.requireToken(t, "fresh")
	})
}

// A record that was only marked meanwhile still has the revoked token.
func TestDisconnectDeletesMarkedRecord(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		store := w.beforeDeletion(func() {
			time.Sleep(defaults.LeaseTTL + time.Second)
			w.fail(t, tokenstore.ReasonInvalidGrant)
		})
		require.NoError(t, w.on(t, store).Disconnect(t.Context(), user))
		w.requireForgotten(t)
	})
}

func TestStoreOutageFailsDisconnect(t *testing.T) {
	oauthtest.Each(t, oauthtest.ByName("Load", "Lease", "DeleteVersion"), func(t *testing.T, method string) {
		w := newFixture(t, oauthtest.RotateNever, time.Hour)
		w.store.Break(method, errors.New("away"))
		err := w.conns.Disconnect(t.Context(), user)
		requireStoreError(t, err, method)
		w.store.Break(method, nil)
		time.Sleep(time.Minute)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
	})
}

// The pair in memory is the pair to revoke.
func TestDisconnectRevokesPendingPair(t *testing.T) {
	withFixture(t, oauthtest.RotateAtOnce, -time.Minute, func(t *testing.T, w *fixture) {
		w.store.Break("Commit", errors.New("away"))
		_, err := w.source.Token(t.Context())
		require.Error(t, err)
		require.Equal(t, 1, w.conns.PendingCommits())
		var problem *tokens.StoreError
		require.ErrorAs(t, w.conns.Disconnect(t.Context(), user), &problem)
		w.store.Break("Commit", nil)
		time.Sleep(time.Minute)
		require.NoError(t, w.conns.Disconnect(t.Context(), user))
		w.requireRevokedLast(t, "access-1")
	})
}

func TestConnectRevokesRejectedToken(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.platform.Inject(nil, oauthtest.Responses(500, ""))
		rejecting := w.verified(t, func(context.Context, tokens.Authorization) error { return errors.New("no") })
		_, err := rejecting.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.ErrorIs(t, err, tokens.ErrOwnerRejected)
		w.requireToken(t, "access-0")
		require.NoError(t, rejecting.Close(t.Context()))
		assert.Contains(t, w.logs.String(), "could not revoke")
		w.requireRevokedLast(t, "access-1")
	})
}

func TestUndecidedVerifyRejectsNoAccount(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		undecided := w.verified(t, func(context.Context, tokens.Authorization) error {
			return fmt.Errorf("%w: no clinic", tokens.ErrUndecided)
		})
		_, err := undecided.Connect(t.Context(), user, api.NewSecret("code-1"))
		require.ErrorIs(t, err, tokens.ErrUndecided)
		require.NotErrorIs(t, err, tokens.ErrOwnerRejected)
		w.requireToken(t, "access-0")
		require.NoError(t, undecided.Close(t.Context()))
		w.requireRevokedLast(t, "access-1")
	})
}

func TestUsableSendsNoRequest(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, -time.Hour, func(t *testing.T, w *fixture) {
		record := w.record(t)
		require.NoError(t, w.conns.Usable(record), "it can be refreshed")
		marked := record
		marked.State, marked.Reason = tokenstore.StateReauthorize, tokenstore.ReasonInvalidGrant
		requireReauthorize(t, w.conns.Usable(marked), tokenstore.ReasonInvalidGrant)
		abroad := record
		abroad.Token.Environment = oauthtest.CASandbox
		require.ErrorIs(t, w.conns.Usable(abroad), api.ErrWrongEnvironment)
		record.Token.ConfiguredScope = "catalog:read"
		grown := newConns(t, w.platform, w.store, func(c *settings) { c.Scopes = []string{"catalog:read", "clinic"} })
		requireReauthorize(t, grown.Usable(record), tokenstore.ReasonScopesExtended)
		assert.Empty(t, w.platform.Sent())
	})
}

func TestReloadFindsStoredToken(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		w.requireToken(t, "access-0")
		more := oauthtest.FirstToken(2 * time.Hour)
		more.AccessToken, more.Scope = api.NewSecret("access-9"), "catalog:read patients:read"
		w.save(t, more)
		w.requireToken(t, "access-0")
		token, err := w.source.Reload(t.Context())
		require.NoError(t, err)
		assert.True(t, token.HasScope("patients:read"))
		w.requireToken(t, "access-9")
		assert.Empty(t, w.platform.Sent())
		_, err = w.conns.TokenSource("").Reload(t.Context())
		require.ErrorIs(t, err, api.ErrArgument)
		_, err = w.conns.TokenSource("nobody").Reload(t.Context())
		requireReauthorize(t, err, tokenstore.ReasonNotConnected)
	})
}

// A hanging call of the store ends after a minute, even if the caller has no deadline.
func TestHangingStoreEndsDisconnect(t *testing.T) {
	withFixture(t, oauthtest.RotateNever, time.Hour, func(t *testing.T, w *fixture) {
		hangs := func(ctx context.Context, _ tokenstore.Key, _ func() error) error {
			<-ctx.Done()
			return ctx.Err()
		}
		store := oauthtest.Around(w.store, map[string]oauthtest.Interception{"Load": hangs})
		began := time.Now()
		requireStoreError(t, w.on(t, store).Disconnect(t.Context(), user), "Load")
		assert.Equal(t, time.Minute, time.Since(began))
	})
}

func TestNewConnectionsNamesInvalidField(t *testing.T) {
	type test struct {
		field  string
		change func(*tokens.Config)
	}
	oauthtest.Each(t, map[string]test{
		"no client":   {"Client", func(c *tokens.Config) { c.Client = nil }},
		"no store":    {"Store", func(c *tokens.Config) { c.Store = nil }},
		"short lease": {"LeaseTTL", func(c *tokens.Config) { c.LeaseTTL = time.Millisecond }},
	}, func(t *testing.T, test test) {
		config := tokens.Config{Client: oauthtest.NewClient(t, nil), Store: tokenstore.NewMemoryStore()}
		test.change(&config)
		_, err := tokens.NewConnections(config)
		var argument *api.ArgumentError
		require.ErrorAs(t, err, &argument)
		assert.Equal(t, "tokens.Config."+test.field, argument.Field)
	})
}
