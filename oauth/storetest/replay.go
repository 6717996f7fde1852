package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// replays plays whole clients, several replicas of them, over the store.
var replays = map[string]func(*testing.T, opener){
	"Replay/none":            replay(oauthtest.RotateNever),
	"Replay/grace":           replay(oauthtest.RotateOnFirstUse),
	"Replay/immediate":       replay(oauthtest.RotateAtOnce),
	"ReplayLostAnswer/none":  replayLostAnswer(oauthtest.RotateNever),
	"ReplayLostAnswer/grace": replayLostAnswer(oauthtest.RotateOnFirstUse),
	"ReplayLostCommit":       replayLostCommit,
	"ReplayLostLease":        replayLostLease,
	"ReplayCrash":            replayCrash,
	"ReplayDelete":           replayDelete,
	"ReplaySave":             replaySave,
	"ReplayRevoked":          replayRevoked,
}

// cluster is a platform with users whose tokens have all ended, and their store.
type cluster struct {
	*testing.T
	platform *oauthtest.Platform
	open     opener
	users    []string
}

func newCluster(t *testing.T, open opener, mode oauthtest.Rotation, users int) *cluster {
	t.Helper()
	w := &cluster{T: t, platform: oauthtest.NewPlatform(mode), open: open}
	w.platform.Prefix, w.platform.Delay = "SECRET-", latency
	store := open()
	for i := range users {
		key := tokens.Key{Environment: usSandbox, User: fmt.Sprintf("user-%d", i)}
		_, err := store.Save(t.Context(), key, w.grant(key))
		require.NoError(t, err)
		w.users = append(w.users, key.User)
	}
	return w
}

// latency keeps refreshes open long enough for others to come.
const latency = 30 * time.Millisecond

// firstRefresh is the refresh token that a user begins with.
func firstRefresh(user string) string { return "SECRET-first-" + user }

// grant returns the token of a user that has ended, with a good refresh token.
func (w *cluster) grant(key tokens.Key) oauth.Token {
	w.platform.Allow(firstRefresh(key.User))
	return oauth.Token{
		AccessToken: api.NewSecret("SECRET-ended-" + key.User), RefreshToken: api.NewSecret(firstRefresh(key.User)), TokenType: "Bearer",
		ExpiresAt: time.Now().Add(-time.Hour), Lifetime: oauth.DefaultLifetime, Environment: key.Environment,
	}
}

// deadLease is how long a replica that died keeps its user waiting: the shortest
// lease there is. Those who live have leases of the usual length, on which the time
// depends that the platform has for its answers.
const deadLease = time.Second

// replica is one replica of a program on this platform.
func (w *cluster) replica(leaseTTL time.Duration, store tokens.Store) *tokens.Connections {
	w.Helper()
	client := oauthtest.NewClient(w, w.platform, func(c *oauth.Config) { c.ClientSecret = api.NewSecret("SECRET-client") })
	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: store, LeaseTTL: leaseTTL})
	require.NoError(w, err)
	return conns
}

// token asks for a user's token on a replica of its own.
func (w *cluster) token(user string) (api.AccessToken, error) {
	w.Helper()
	return w.replica(tokens.DefaultLeaseTTL, w.open()).TokenSource(user).Token(w.Context())
}

// stress lets every caller of every replica ask for every user's token and use it.
func (w *cluster) stress(wrap func(tokens.Store) tokens.Store) {
	w.Helper()
	var wg sync.WaitGroup
	for range replicas {
		conns := w.replica(tokens.DefaultLeaseTTL, wrap(w.open()))
		for range callers {
			for _, user := range w.users {
				wg.Go(func() {
					token, err := conns.TokenSource(user).Token(w.Context())
					if assert.NoError(w, err, user) {
						assert.True(w, w.platform.Use(token.Secret), user)
					}
				})
			}
		}
	}
	wg.Wait()
}

func plain(store tokens.Store) tokens.Store { return store }

// requireConnected asserts that no user was logged out, and that each user's token
// can still be refreshed.
func (w *cluster) requireConnected(refreshes int) {
	w.Helper()
	store := w.open()
	for _, user := range w.users {
		record := load(w, store, tokens.Key{Environment: usSandbox, User: user})
		assert.Equal(w, tokens.StateActive, record.State, user)
		assert.Equal(w, refreshes, w.platform.Refreshes(firstRefresh(user)), "refreshes of %s", user)
		assert.True(w, w.platform.Use(record.Token.AccessToken), user)
		assert.True(w, w.platform.Knows(record.Token.RefreshToken.Reveal()), "the refresh token of %s is dead", user)
	}
}

func replay(mode oauthtest.Rotation) func(*testing.T, opener) {
	return func(t *testing.T, open opener) {
		w := newCluster(t, open, mode, 5)
		w.stress(plain)
		w.requireConnected(1)
		w.stress(plain)
		w.requireConnected(1)
	}
}

// replayLostAnswer loses the first answer about each refresh token: the platform
// has refreshed, and no replica knows.
func replayLostAnswer(mode oauthtest.Rotation) func(*testing.T, opener) {
	return func(t *testing.T, open opener) {
		w := newCluster(t, open, mode, 3)
		var lost sync.Map
		w.platform.Around = func(refresh string, handle func() *http.Response) (*http.Response, error) {
			if _, again := lost.LoadOrStore(refresh, true); !again {
				return oauthtest.Loses(handle)
			}
			return handle(), nil
		}
		w.stress(plain)
		w.requireConnected(2)
	}
}

// lossy returns a wrapper of stores that carry a method out and say that it failed, the
// first time for each user: the answer was lost on its way from the store.
func lossy(method string) func(tokens.Store) tokens.Store {
	var lost sync.Map
	lose := func(_ context.Context, key tokens.Key, work func() error) error {
		err := work()
		if err == nil {
			if _, again := lost.LoadOrStore(key, true); !again {
				return errLost
			}
		}
		return err
	}
	return func(store tokens.Store) tokens.Store {
		return oauthtest.Around(store, map[string]oauthtest.Interception{method: lose})
	}
}

var errLost = errors.New("storetest: the answer of the store was lost")

func replayLostCommit(t *testing.T, open opener) {
	w := newCluster(t, open, oauthtest.RotateAtOnce, 3)
	w.stress(lossy("Commit"))
	w.requireConnected(1)
}

// replayLostLease leaves leases behind that no replica knows of: their users wait
// for the leases' end, and are served then.
func replayLostLease(t *testing.T, open opener) {
	w := newCluster(t, open, oauthtest.RotateAtOnce, 3)
	conns := w.replica(deadLease, lossy("Lease")(open()))
	for _, user := range w.users {
		_, err := conns.TokenSource(user).Token(t.Context())
		require.ErrorIs(t, err, errLost)
	}
	w.stress(plain)
	w.requireConnected(1)
}

func replayCrash(t *testing.T, open opener) {
	w := newCluster(t, open, oauthtest.RotateOnFirstUse, 3)
	for _, user := range w.users {
		record := load(t, open(), tokens.Key{Environment: usSandbox, User: user})
		take(t, open(), record, "a replica that died", deadLease)
		_, err := w.replica(deadLease, open()).Client().Refresh(t.Context(), record.Token) // and does not store the answer
		require.NoError(t, err)
	}
	w.stress(plain)
	w.requireConnected(2)
}

// replayDelete disconnects users in the middle of their refresh.
func replayDelete(t *testing.T, open opener) {
	w := newCluster(t, open, oauthtest.RotateAtOnce, 1)
	key := tokens.Key{Environment: usSandbox, User: w.users[0]}
	w.platform.Around = func(_ string, handle func() *http.Response) (*http.Response, error) {
		err := deleteCurrent(t.Context(), open(), key)
		return handle(), err
	}
	_, err := w.token(key.User)
	requireError(t, err, oauth.ErrReauthorize)
	requireError(t, err, tokens.ErrNoRecord)
	_, err = open().Load(t.Context(), key)
	requireError(t, err, tokens.ErrNoRecord)
}

// replaySave lets the user authorize anew in the middle of a refresh: that token
// is newer than the one that the refresh brings.
func replaySave(t *testing.T, open opener) {
	w := newCluster(t, open, oauthtest.RotateAtOnce, 1)
	key := tokens.Key{Environment: usSandbox, User: w.users[0]}
	renewed := sample(key, 77)
	renewed.ExpiresAt = time.Now().Add(time.Hour)
	w.platform.Around = func(_ string, handle func() *http.Response) (*http.Response, error) {
		_, err := open().Save(t.Context(), key, renewed)
		return handle(), err
	}
	token, err := w.token(key.User)
	require.NoError(t, err)
	assert.Equal(t, renewed.AccessToken.Reveal(), token.Secret.Reveal())
	requireSameToken(t, renewed, load(t, open(), key).Token)
}

// replayRevoked holds that a user who has to authorize again is remembered: the
// platform is asked once.
func replayRevoked(t *testing.T, open opener) {
	w := newCluster(t, open, oauthtest.RotateNever, 1)
	key := tokens.Key{Environment: usSandbox, User: w.users[0]}
	w.platform.ForgetAll()
	for range replicas {
		_, err := w.token(key.User)
		requireError(t, err, oauth.ErrReauthorize)
	}
	assert.Len(t, w.platform.Sent(), 1)
	assert.Equal(t, tokens.ReasonInvalidGrant, load(t, open(), key).Reason)
	_, err := open().Save(t.Context(), key, w.grant(key))
	require.NoError(t, err)
	_, err = w.token(key.User)
	require.NoError(t, err, "the user is back")
}
