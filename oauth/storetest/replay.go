package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokens"
)

// replays plays whole clients, several replicas of them, over the store.
var replays = map[string]func(*testing.T, opener){
	"Replay/none":            replay(none),
	"Replay/grace":           replay(grace),
	"Replay/immediate":       replay(immediate),
	"ReplayLostAnswer/none":  replayLostAnswer(none),
	"ReplayLostAnswer/grace": replayLostAnswer(grace),
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
	platform *platform
	open     opener
	users    []string
}

func newCluster(t *testing.T, open opener, mode rotation, users int) *cluster {
	t.Helper()
	w := &cluster{T: t, platform: newPlatform(mode), open: open}
	store := open()
	for i := range users {
		key := tokens.Key{Environment: usSandbox, User: fmt.Sprintf("user-%d", i)}
		_, err := store.Save(t.Context(), key, w.platform.grant(key))
		require.NoError(t, err)
		w.users = append(w.users, key.User)
	}
	return w
}

// stress lets every caller of every replica ask for every user's token and use it.
func (w *cluster) stress(wrap func(tokens.Store) tokens.Store) {
	w.Helper()
	var wg sync.WaitGroup
	for range replicas {
		conns := w.platform.replica(w, tokens.DefaultLeaseTTL, wrap(w.open()))
		for range callers {
			for _, user := range w.users {
				wg.Go(func() {
					token, err := conns.TokenSource(user).Token(w.Context())
					if assert.NoError(w, err, user) {
						assert.NoError(w, w.platform.use(token), user)
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
		assert.Equal(w, refreshes, w.platform.refreshes(user), "refreshes of %s", user)
		assert.NoError(w, w.platform.use(api.AccessToken{Secret: record.Token.AccessToken}))
		w.platform.mu.Lock()
		assert.True(w, w.platform.good[record.Token.RefreshToken.Reveal()], "the refresh token of %s is dead", user)
		w.platform.mu.Unlock()
	}
}

func replay(mode rotation) func(*testing.T, opener) {
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
func replayLostAnswer(mode rotation) func(*testing.T, opener) {
	return func(t *testing.T, open opener) {
		w := newCluster(t, open, mode, 3)
		var lost sync.Map
		w.platform.after = func(refresh string) error {
			if _, again := lost.LoadOrStore(refresh, true); !again {
				return errors.New("connection reset")
			}
			return nil
		}
		w.stress(plain)
		w.requireConnected(2)
	}
}

// lossyStore carries a method out and says that it failed, the first time for
// each user: the answer was lost on its way from the store.
type lossyStore struct {
	tokens.Store
	lose string // the method
	lost *sync.Map
}

var errLost = errors.New("storetest: the answer of the store was lost")

func (s lossyStore) loses(method string, key tokens.Key) bool {
	if s.lose != method {
		return false
	}
	_, again := s.lost.LoadOrStore(key, true)
	return !again
}

// Lease implements [tokens.Store].
func (s lossyStore) Lease(ctx context.Context, lease tokens.Lease, ttl time.Duration) (tokens.Record, error) {
	record, err := s.Store.Lease(ctx, lease, ttl)
	if err == nil && s.loses("Lease", lease.Key) {
		return tokens.Record{}, errLost
	}
	return record, err
}

// Commit implements [tokens.Store].
func (s lossyStore) Commit(ctx context.Context, lease tokens.Lease, token oauth.Token) (tokens.Record, error) {
	record, err := s.Store.Commit(ctx, lease, token)
	if err == nil && s.loses("Commit", lease.Key) {
		return tokens.Record{}, errLost
	}
	return record, err
}

func replayLostCommit(t *testing.T, open opener) {
	w := newCluster(t, open, immediate, 3)
	var lost sync.Map
	w.stress(func(store tokens.Store) tokens.Store { return lossyStore{store, "Commit", &lost} })
	w.requireConnected(1)
}

// replayLostLease leaves leases behind that no replica knows of: their users wait
// for the leases' end, and are served then.
func replayLostLease(t *testing.T, open opener) {
	w := newCluster(t, open, immediate, 3)
	var lost sync.Map
	conns := w.platform.replica(t, deadLease, lossyStore{open(), "Lease", &lost})
	for _, user := range w.users {
		_, err := conns.TokenSource(user).Token(t.Context())
		require.ErrorIs(t, err, errLost)
	}
	w.stress(plain)
	w.requireConnected(1)
}

func replayCrash(t *testing.T, open opener) {
	w := newCluster(t, open, grace, 3)
	for _, user := range w.users {
		record := load(t, open(), tokens.Key{Environment: usSandbox, User: user})
		take(t, open(), record, "a replica that died", deadLease)
		w.platform.refresh(record.Token.RefreshToken.Reveal()) // and never heard the answer
	}
	w.stress(plain)
	w.requireConnected(2)
}

// replayDelete disconnects users in the middle of their refresh.
func replayDelete(t *testing.T, open opener) {
	w := newCluster(t, open, immediate, 1)
	key := tokens.Key{Environment: usSandbox, User: w.users[0]}
	w.platform.before = func(string) error { return open().Delete(t.Context(), key) }
	_, err := w.platform.replica(t, tokens.DefaultLeaseTTL, open()).TokenSource(key.User).Token(t.Context())
	requireError(t, err, oauth.ErrReauthorize)
	requireError(t, err, tokens.ErrNoRecord)
	_, err = open().Load(t.Context(), key)
	requireError(t, err, tokens.ErrNoRecord)
}

// replaySave lets the user authorize anew in the middle of a refresh: that token
// is newer than the one that the refresh brings.
func replaySave(t *testing.T, open opener) {
	w := newCluster(t, open, immediate, 1)
	key := tokens.Key{Environment: usSandbox, User: w.users[0]}
	renewed := sample(key, 77)
	renewed.ExpiresAt = time.Now().Add(time.Hour)
	w.platform.before = func(string) error {
		_, err := open().Save(t.Context(), key, renewed)
		return err
	}
	token, err := w.platform.replica(t, tokens.DefaultLeaseTTL, open()).TokenSource(key.User).Token(t.Context())
	require.NoError(t, err)
	assert.Equal(t, renewed.AccessToken.Reveal(), token.Secret.Reveal())
	requireSameToken(t, renewed, load(t, open(), key).Token)
}

// replayRevoked holds that a user who has to authorize again is remembered: the
// platform is asked once.
func replayRevoked(t *testing.T, open opener) {
	w := newCluster(t, open, none, 1)
	key := tokens.Key{Environment: usSandbox, User: w.users[0]}
	w.platform.good = map[string]bool{}
	var asked atomic.Int64
	w.platform.before = func(string) error { asked.Add(1); return nil }
	for range replicas {
		_, err := w.platform.replica(t, tokens.DefaultLeaseTTL, open()).TokenSource(key.User).Token(t.Context())
		requireError(t, err, oauth.ErrReauthorize)
	}
	assert.EqualValues(t, 1, asked.Load())
	assert.Equal(t, tokens.ReasonInvalidGrant, load(t, open(), key).Reason)
	_, err := open().Save(t.Context(), key, w.platform.grant(key))
	require.NoError(t, err)
	_, err = w.platform.replica(t, tokens.DefaultLeaseTTL, open()).TokenSource(key.User).Token(t.Context())
	require.NoError(t, err, "the user is back")
}
