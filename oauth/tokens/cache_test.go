package tokens

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// inMemory returns the users with a token in memory, the most recently used first.
func (u *users) inMemory(t *testing.T) []string {
	t.Helper()
	var all []string
	for element := u.order.Front(); element != nil; element = element.Next() {
		user := element.Value.(*userToken).user
		all = append(all, user)
		require.Same(t, element, u.tokens[user])
	}
	require.Len(t, u.tokens, len(all))
	return all
}

func TestCacheDropsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3, 8} {
		random := rand.New(rand.NewPCG(1, 2))
		u, model := users{limit: limit}, []string{}
		for range 5000 {
			user := fmt.Sprint(random.IntN(14))
			at := slices.Index(model, user)
			require.Equal(t, at >= 0, u.token(user) != nil)
			if at >= 0 {
				model = slices.Delete(model, at, at+1)
			}
			if random.IntN(5) == 0 {
				u.remove(user)
			} else {
				u.put(user, &cachedToken{})
				model = append([]string{user}, model...)
				model = model[:min(len(model), limit)]
			}
			require.Equal(t, model, append([]string{}, u.inMemory(t)...))
		}
	}
}

// A read that began before a refresh ended, or before the user was forgotten, stores nothing.
func TestEarlierReadStoresNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := users{limit: 2}
		key := tokenstore.Key{Environment: api.USSandbox, User: "a"}
		start := func(kind callKind, access string) (end func()) {
			release := make(chan struct{})
			c, started := u.join(t.Context(), callKey{key: key, kind: kind}, nil, func(context.Context) (tokenstore.Record, error) {
				<-release
				return tokenstore.Record{Token: oauth.Token{AccessToken: api.NewSecret(access)}}, nil
			})
			require.True(t, started)
			return func() { close(release); <-c.done }
		}
		requireToken := func(want string) {
			require.Equal(t, api.NewSecret(want), u.token("a").token.Secret)
		}
		endLoad, endRefresh := start(loadCall, "old"), start(refreshCall, "new")
		endRefresh()
		requireToken("new")
		endLoad()
		requireToken("new")

		endLoad, endRefresh = start(loadCall, "read"), start(refreshCall, "newer")
		endLoad()
		requireToken("read")
		endRefresh()
		requireToken("newer")

		endLoad, endRefresh = start(loadCall, "old"), start(refreshCall, "old")
		u.forget(key)
		endRefresh()
		endLoad()
		assert.Nil(t, u.token("a"))
		assert.Empty(t, u.open)
		assert.Empty(t, u.running)
	})
}
