package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
