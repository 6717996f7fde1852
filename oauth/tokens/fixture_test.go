package tokens_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

const user = oauthtest.User

// settings configures the client and its connections.
type settings struct {
	oauth.Config
	Tokens tokens.Config
}

// newConns returns the connections of one replica.
func newConns(t testing.TB, transport http.RoundTripper, store tokenstore.Store, changes ...func(*settings)) *tokens.Connections {
	t.Helper()
	c := settings{Config: oauthtest.Config(transport), Tokens: tokens.Config{Store: store}}
	for _, change := range changes {
		change(&c)
	}
	var err error
	c.Tokens.Client, err = oauth.New(c.Config)
	require.NoError(t, err)
	conns, err := tokens.NewConnections(c.Tokens)
	require.NoError(t, err)
	return conns
}

// fixture is one replica, with its platform and its store with one connected user.
type fixture struct {
	platform *oauthtest.Platform
	conns    *tokens.Connections
	store    *oauthtest.FlakyStore
	source   tokens.TokenSource
	logs     *logtest.Buffer
}

// newFixture connects the user with the token access-0/refresh-0. It expires after left.
func newFixture(t *testing.T, mode oauthtest.Rotation, left time.Duration) *fixture {
	t.Helper()
	w := &fixture{platform: oauthtest.NewPlatform(mode), store: oauthtest.NewFlakyStore(), logs: &logtest.Buffer{}}
	w.conns = w.replica(t)
	w.source = w.conns.TokenSource(user)
	w.save(t, oauthtest.FirstToken(left))
	return w
}

// withFixture runs a test on a fixture in a synctest bubble.
func withFixture(t *testing.T, mode oauthtest.Rotation, left time.Duration, test func(t *testing.T, w *fixture)) {
	t.Helper()
	oauthtest.Bubble(t, func(t *testing.T) { test(t, newFixture(t, mode, left)) })
}

// replica returns connections to the same platform and store, as on another machine.
func (w *fixture) replica(t *testing.T, changes ...func(*settings)) *tokens.Connections {
	t.Helper()
	return w.on(t, w.store, changes...)
}

// on returns connections to the same platform and another store.
func (w *fixture) on(t *testing.T, store tokenstore.Store, changes ...func(*settings)) *tokens.Connections {
	t.Helper()
	logged := func(c *settings) { c.Logger = logtest.NewLogger(w.logs) }
	return newConns(t, w.platform, store, append([]func(*settings){logged}, changes...)...)
}

// verified returns connections with this Verify.
func (w *fixture) verified(t *testing.T, verify func(context.Context, tokens.Authorization) error) *tokens.Connections {
	t.Helper()
	return w.replica(t, func(c *settings) { c.Tokens.Verify = verify })
}

func (w *fixture) save(t *testing.T, token oauth.Token) tokenstore.Record {
	t.Helper()
	record, err := w.store.Save(t.Context(), w.conns.Key(user), token)
	require.NoError(t, err)
	return record
}

func (w *fixture) record(t *testing.T) tokenstore.Record {
	t.Helper()
	record, err := w.store.Store.Load(t.Context(), w.conns.Key(user))
	require.NoError(t, err)
	return record
}

// saveAccess stores a token that expires after left, as a peer or the user would.
func (w *fixture) saveAccess(t *testing.T, access string, left time.Duration) tokenstore.Record {
	t.Helper()
	token := oauthtest.FirstToken(left)
	token.AccessToken = api.NewSecret(access)
	return w.save(t, token)
}

// lease takes the lease on the user's record for another owner.
func (w *fixture) lease(t *testing.T, ttl time.Duration) tokenstore.Lease {
	t.Helper()
	lease := tokenstore.Lease{Key: w.conns.Key(user), Version: w.record(t).Version, Owner: "peer"}
	_, err := w.store.Lease(t.Context(), lease, ttl)
	require.NoError(t, err)
	return lease
}

// fail marks the user, as a peer would.
func (w *fixture) fail(t *testing.T, reason tokenstore.Reason) {
	t.Helper()
	_, err := w.store.Fail(t.Context(), w.lease(t, time.Minute), w.record(t).Token, reason)
	require.NoError(t, err)
}

// recordOf returns the record of user many-i.
func (w *fixture) recordOf(t *testing.T, i int) tokenstore.Record {
	t.Helper()
	record, err := w.store.Load(t.Context(), w.conns.Key(fmt.Sprintf("many-%d", i)))
	require.NoError(t, err)
	return record
}

// requireToken asserts that the source returns this access token.
func (w *fixture) requireToken(t *testing.T, want string) {
	t.Helper()
	requireTokenFrom(t, w.source, want)
}

// requireTokenOf asserts that conns returns this access token of the user.
func requireTokenOf(t *testing.T, conns *tokens.Connections, want string) {
	t.Helper()
	requireTokenFrom(t, conns.TokenSource(user), want)
}

func requireTokenFrom(t *testing.T, source tokens.TokenSource, want string) {
	t.Helper()
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, want, token.Secret.Reveal())
}

// requireForgotten asserts that the user has no record.
func (w *fixture) requireForgotten(t *testing.T) {
	t.Helper()
	_, err := w.store.Load(t.Context(), w.conns.Key(user))
	require.ErrorIs(t, err, tokenstore.ErrNoRecord)
}

// requireStoreError asserts that this method of the store failed.
func requireStoreError(t *testing.T, err error, method string) {
	t.Helper()
	var problem *tokens.StoreError
	require.ErrorAs(t, err, &problem)
	require.Equal(t, method, problem.Op)
}

// requireReauthorize asserts that the source's user must authorize again for this reason.
func (w *fixture) requireReauthorize(t *testing.T, reason tokenstore.Reason) {
	t.Helper()
	_, err := w.source.Token(t.Context())
	requireReauthorize(t, err, reason)
}

// requireReauthorize asserts that the user must authorize again for this reason.
func requireReauthorize(t *testing.T, err error, reason tokenstore.Reason) *tokens.ReauthorizeError {
	t.Helper()
	require.ErrorIs(t, err, api.ErrReauthorize)
	var e *tokens.ReauthorizeError
	require.ErrorAs(t, err, &e)
	require.Equal(t, reason, e.Reason)
	return e
}

// requireRejected asserts that a refresh token was rejected without a mark of the user.
func requireRejected(t *testing.T, err error) {
	t.Helper()
	require.NotErrorIs(t, err, api.ErrReauthorize)
	var response *api.Error
	require.ErrorAs(t, err, &response)
	require.Equal(t, "invalid_grant", response.Code)
}

// requireMark asserts that the first rejection of a refresh token is a temporary error, and
// that the second rejection marks the user a minute later.
func requireMark(t *testing.T, source tokens.TokenSource) *tokens.ReauthorizeError {
	t.Helper()
	_, err := source.Token(t.Context())
	requireRejected(t, err)
	time.Sleep(time.Minute)
	_, err = source.Token(t.Context())
	return requireReauthorize(t, err, tokenstore.ReasonInvalidGrant)
}

// requireFailure asserts that the source fails with this error.
func (w *fixture) requireFailure(t *testing.T, want error) {
	t.Helper()
	_, err := w.source.Token(t.Context())
	require.ErrorIs(t, err, want)
}

// sealedWith returns a store with a new encryption key.
func sealedWith(t *testing.T, inner tokenstore.Store, id string) tokenstore.Store {
	t.Helper()
	key, err := seal.GenerateKey(id)
	require.NoError(t, err)
	ring, err := seal.NewKeyRing(key)
	require.NoError(t, err)
	store, err := tokenstore.Sealed(inner, ring)
	require.NoError(t, err)
	return store
}
