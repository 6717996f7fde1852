package tokens_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

const user = oauthtest.User

// settings are those of the client and of the connections that are bound to it.
type settings struct {
	oauth.Config
	Tokens tokens.Config
}

// newConns returns the connections of one replica.
func newConns(t testing.TB, transport http.RoundTripper, store tokens.Store, changes ...func(*settings)) *tokens.Connections {
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

// fixture is one replica, its platform and its store with one connected user.
type fixture struct {
	platform *oauthtest.Platform
	conns    *tokens.Connections
	store    *oauthtest.FlakyStore
	source   *tokens.TokenSource
	logs     *oauthtest.LogBuffer
}

// newFixture connects the user with the token access-0/refresh-0, which ends after
// the given time.
func newFixture(t *testing.T, mode oauthtest.Rotation, left time.Duration) *fixture {
	t.Helper()
	w := &fixture{platform: oauthtest.NewPlatform(mode), store: oauthtest.NewFlakyStore(), logs: &oauthtest.LogBuffer{}}
	w.conns = w.replica(t)
	w.source = w.conns.TokenSource(user)
	w.save(t, oauthtest.FirstToken(left))
	return w
}

// withFixture runs a test on a fixture, in a bubble.
func withFixture(t *testing.T, mode oauthtest.Rotation, left time.Duration, test func(t *testing.T, w *fixture)) {
	t.Helper()
	oauthtest.Bubble(t, func(t *testing.T) { test(t, newFixture(t, mode, left)) })
}

// replica returns connections of the same platform and store, as on another machine.
func (w *fixture) replica(t *testing.T, changes ...func(*settings)) *tokens.Connections {
	t.Helper()
	return newConns(t, w.platform, w.store, append([]func(*settings){func(c *settings) {
		c.Logger = oauthtest.NewLogger(w.logs)
	}}, changes...)...)
}

// on returns connections of the same platform that are bound to another store.
func (w *fixture) on(t *testing.T, store tokens.Store) *tokens.Connections {
	t.Helper()
	return newConns(t, w.platform, store, func(c *settings) { c.Logger = oauthtest.NewLogger(w.logs) })
}

// verified returns connections that ask verify.
func (w *fixture) verified(t *testing.T, verify func(context.Context, tokens.Authorization) error) *tokens.Connections {
	t.Helper()
	return w.replica(t, func(c *settings) { c.Tokens.Verify = verify })
}

func (w *fixture) save(t *testing.T, token oauth.Token) tokens.Record {
	t.Helper()
	record, err := w.store.Save(t.Context(), w.conns.Key(user), token)
	require.NoError(t, err)
	return record
}

func (w *fixture) record(t *testing.T) tokens.Record {
	t.Helper()
	record, err := w.store.Store.Load(t.Context(), w.conns.Key(user))
	require.NoError(t, err)
	return record
}

// requireToken asserts that the source gives this access token.
func (w *fixture) requireToken(t *testing.T, want api.Secret) {
	t.Helper()
	token, err := w.source.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, want.Reveal(), token.Secret.Reveal())
}

// requireReauthorize asserts that only the user can help, and why.
func requireReauthorize(t *testing.T, err error, reason tokens.Reason) *tokens.ReauthorizeError {
	t.Helper()
	require.ErrorIs(t, err, oauth.ErrReauthorize)
	var e *tokens.ReauthorizeError
	require.ErrorAs(t, err, &e)
	require.Equal(t, reason, e.Reason)
	return e
}
