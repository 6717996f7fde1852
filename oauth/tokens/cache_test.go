package tokens

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

func TestMemoryKeepsNewestToken(t *testing.T) {
	t.Parallel()
	u := users{limit: 3}
	for i := range 100 {
		user := fmt.Sprint(i % 7)
		u.put(user, &cachedToken{})
		require.NotNil(t, u.token(user))
		require.Len(t, u.tokens, min(i+1, 3))
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
