package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// races tests concurrent writes of several replicas.
var races = map[string]func(*testing.T, opener){
	"NoUpdateIsLost":     noUpdateIsLost,
	"SaveAmongCommits":   saveAmongCommits,
	"DeleteAmongCommits": deleteAmongCommits,
	"DeleteAmongSaves":   deleteAmongSaves,
	"FirstSaves":         firstSaves,
	"SaveVersionRaces":   saveVersionRaces,
}

// counted returns a token whose access token is a number.
func counted(n int) oauth.Token {
	token := sample(user17, 0)
	token.AccessToken = api.NewSecret("SECRET-" + strconv.Itoa(n))
	return token
}

func count(t testing.TB, record tokenstore.Record) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(record.Token.AccessToken.Reveal(), "SECRET-"))
	assert.NoError(t, err)
	return n
}

// addOne takes the lease and increments the number in the record. It returns false if another
// caller has the lease or has written since.
func addOne(t *testing.T, store tokenstore.Store, owner string) bool {
	record, err := store.Load(t.Context(), user17)
	if !assert.NoError(t, err) {
		return true
	}
	leased, err := store.Lease(t.Context(), leaseOf(record, owner), long)
	if err == nil {
		_, err = store.Commit(t.Context(), leaseOf(leased, owner), counted(count(t, leased)+1))
	}
	assert.True(t, err == nil || isContention(err), "%v", err)
	return err == nil
}

// noUpdateIsLost: every increment must count. If two callers had the lease, or a commit
// replaced a later version, an increment would be lost.
func noUpdateIsLost(t *testing.T, open opener) {
	store := open()
	written(t)(store.Save(t.Context(), user17, counted(0)))
	runConcurrently(open, func(store tokenstore.Store, owner string) {
		for added := 0; added < 3 && t.Context().Err() == nil && !t.Failed(); {
			if addOne(t, store, owner) {
				added++
			}
		}
	})
	assert.Equal(t, replicas*callers*3, count(t, load(t, store, user17)))
}

// saveAmongCommits: a refresh must not replace a new authorization.
func saveAmongCommits(t *testing.T, open opener) {
	store := open()
	const generation = 1000 // Save starts a generation, and each refresh adds one
	written(t)(store.Save(t.Context(), user17, counted(0)))
	var next atomic.Int64
	runConcurrently(open, func(store tokenstore.Store, owner string) {
		if !strings.HasSuffix(owner, "-0") {
			addOne(t, store, owner)
			return
		}
		_, err := store.Save(t.Context(), user17, counted(int(next.Add(1))*generation))
		assert.NoError(t, err)
	})
	assert.GreaterOrEqual(t, count(t, load(t, store, user17)), generation, "a refresh replaced a later authorization")
}

func deleteAmongCommits(t *testing.T, open opener) {
	for range 3 {
		store := open()
		record := save(t, store, user17, 0)
		runConcurrently(open, func(store tokenstore.Store, owner string) {
			if strings.HasSuffix(owner, "-0") {
				for err := tokenstore.ErrConflict; errors.Is(err, tokenstore.ErrConflict); {
					var current tokenstore.Record
					if current, err = store.Load(t.Context(), user17); err == nil {
						err = store.DeleteVersion(t.Context(), user17, current.Version)
					}
					assert.True(t, err == nil || errors.Is(err, tokenstore.ErrConflict) || errors.Is(err, tokenstore.ErrNoRecord), "%v", err)
				}
				return
			}
			_, err := store.Lease(t.Context(), leaseOf(record, owner), long)
			if err == nil {
				_, err = store.Commit(t.Context(), leaseOf(record, owner), sample(user17, 1))
			}
			assert.True(t, err == nil || isContention(err) || errors.Is(err, tokenstore.ErrNoRecord), "%v", err)
		})
		requireAbsent(t, store, user17, record.Version) // no refresh recreated the record
	}
}

// deleteAmongSaves lets all callers delete one version. The user authorizes again right after
// the first deletion.
func deleteAmongSaves(t *testing.T, open opener) {
	for round := range 5 {
		record := save(t, open(), user17, round)
		runConcurrently(open, func(store tokenstore.Store, owner string) {
			err := store.DeleteVersion(t.Context(), user17, record.Version)
			assert.True(t, err == nil || errors.Is(err, tokenstore.ErrConflict), "%v", err)
			if owner == "0-0" {
				_, err = store.Save(t.Context(), user17, sample(user17, 77))
				assert.NoError(t, err)
			}
		})
		_, err := open().Load(t.Context(), user17)
		require.NoError(t, err, "the new token was deleted")
	}
}

// saveVersionRaces lets all callers replace one version. One call succeeds, and the others
// fail with [tokenstore.ErrConflict]. The first round creates the record.
func saveVersionRaces(t *testing.T, open opener) {
	var version int64
	for round := range 5 {
		var won atomic.Int64
		runConcurrently(open, func(store tokenstore.Store, owner string) {
			record, err := store.SaveVersion(t.Context(), user17, version, sample(user17, round))
			if err == nil {
				won.Add(1)
				assert.Greater(t, record.Version, version)
				return
			}
			assert.ErrorIs(t, err, tokenstore.ErrConflict)
		})
		require.EqualValues(t, 1, won.Load())
		record := load(t, open(), user17)
		requireSameToken(t, sample(user17, round), record.Token)
		version = record.Version
	}
}

func firstSaves(t *testing.T, open opener) {
	var mu sync.Mutex
	var last int64
	seen := map[int64]bool{}
	runConcurrently(open, func(store tokenstore.Store, owner string) {
		for n := range 3 {
			record, err := store.Save(t.Context(), user17, sample(user17, n))
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			assert.False(t, seen[record.Version], "two writes have the same version")
			seen[record.Version], last = true, max(last, record.Version)
			mu.Unlock()
		}
	})
	assert.GreaterOrEqual(t, load(t, open(), user17).Version, last)
}

// clusters tests replicas of [tokens.Connections] on a shared store. All callers need the
// expired tokens of the same users at once.
var clusters = map[string]func(*testing.T, opener){
	"Cluster":           clusterIsFine,
	"ClusterLostCommit": clusterLostCommit,
	"ClusterLostLease":  clusterLostLease,
	"ClusterCrash":      clusterCrash,
}

// cluster is a platform and a store with users whose tokens have all expired.
type cluster struct {
	*testing.T
	platform *oauthtest.Platform
	open     opener
	users    []string
}

func newCluster(t *testing.T, open opener, mode oauthtest.Rotation) *cluster {
	t.Helper()
	c := &cluster{T: t, platform: oauthtest.NewPlatform(mode), open: open}
	c.platform.Prefix, c.platform.Delay = "SECRET-", 30*time.Millisecond // long enough for other callers to join the refresh
	store := open()
	for i := range 3 {
		key := keyOf(fmt.Sprintf("user-%d", i))
		c.platform.Allow(firstRefresh(key.User))
		_, err := store.Save(t.Context(), key, oauth.Token{
			AccessToken: api.NewSecret("SECRET-expired-" + key.User), RefreshToken: api.NewSecret(firstRefresh(key.User)), TokenType: "Bearer",
			ExpiresAt: time.Now().Add(-time.Hour), Lifetime: defaults.TokenLifetime, Environment: key.Environment,
		})
		require.NoError(t, err)
		c.users = append(c.users, key.User)
	}
	return c
}

// firstRefresh returns the first refresh token of a user.
func firstRefresh(user string) string { return "SECRET-first-" + user }

// crashedLease is the shortest possible lease. A crashed replica has it. Live replicas use the
// default, because their timeout for responses depends on it.
const crashedLease = time.Second

func (c *cluster) replica(leaseTTL time.Duration, store tokenstore.Store) *tokens.Connections {
	c.Helper()
	client := oauthtest.NewClient(c, c.platform, func(o *oauth.Config) { o.ClientSecret = api.NewSecret("SECRET-client") })
	conns, err := tokens.NewConnections(tokens.Config{Client: client, Store: store, LeaseTTL: leaseTTL})
	require.NoError(c, err)
	return conns
}

// stress lets every caller of every replica use the token of every user. The platform must
// then have refreshed each token the given number of times, no user may have to authorize
// again, and each stored token must be refreshable.
func (c *cluster) stress(wrap func(tokenstore.Store) tokenstore.Store, refreshes int) {
	c.Helper()
	var wg sync.WaitGroup
	for range replicas {
		conns := c.replica(defaults.LeaseTTL, wrap(c.open()))
		for range callers {
			for _, user := range c.users {
				wg.Go(func() {
					token, err := conns.TokenSource(user).Token(c.Context())
					if assert.NoError(c, err, user) {
						assert.True(c, c.platform.Use(token.Secret), user)
					}
				})
			}
		}
	}
	wg.Wait()
	for _, user := range c.users {
		record := load(c, c.open(), keyOf(user))
		assert.Equal(c, tokenstore.StateActive, record.State, user)
		assert.Equal(c, refreshes, c.platform.Refreshes(firstRefresh(user)), "refreshes of %s", user)
		assert.True(c, c.platform.Use(record.Token.AccessToken), user)
		assert.True(c, c.platform.Knows(record.Token.RefreshToken.Reveal()), "the platform does not know the refresh token of %s", user)
	}
}

func plain(store tokenstore.Store) tokenstore.Store { return store }

func clusterIsFine(t *testing.T, open opener) {
	c := newCluster(t, open, oauthtest.RotateAtOnce)
	c.stress(plain, 1)
	c.stress(plain, 1)
}

var errLost = errors.New("storetest: the response of the store was lost")

// lossy returns a wrapper of stores. The wrapped method succeeds, but returns an error the
// first time for each user, as if its response were lost.
func lossy(method string) func(tokenstore.Store) tokenstore.Store {
	var lost sync.Map
	lose := func(_ context.Context, key tokenstore.Key, work func() error) error {
		err := work()
		if err == nil {
			if _, again := lost.LoadOrStore(key, true); !again {
				return errLost
			}
		}
		return err
	}
	return func(store tokenstore.Store) tokenstore.Store {
		return oauthtest.Around(store, map[string]oauthtest.Interception{method: lose})
	}
}

func clusterLostCommit(t *testing.T, open opener) {
	newCluster(t, open, oauthtest.RotateAtOnce).stress(lossy("Commit"), 1)
}

// clusterLostLease takes leases but loses the store's responses. The same owner gets each
// lease again at once.
func clusterLostLease(t *testing.T, open opener) {
	c := newCluster(t, open, oauthtest.RotateAtOnce)
	conns := c.replica(crashedLease, lossy("Lease")(open()))
	for _, user := range c.users {
		_, err := conns.TokenSource(user).Token(t.Context())
		require.NoError(t, err)
	}
	c.stress(plain, 1)
}

// clusterCrash lets a replica refresh each token and crash before it stores the result.
func clusterCrash(t *testing.T, open opener) {
	c := newCluster(t, open, oauthtest.RotateOnFirstUse)
	for _, user := range c.users {
		record := load(t, open(), keyOf(user))
		take(t, open(), record, "a crashed replica", crashedLease)
		_, err := c.replica(crashedLease, open()).Client().Refresh(t.Context(), record.Token)
		require.NoError(t, err)
	}
	c.stress(plain, 2)
}
