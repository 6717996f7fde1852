package tokens

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cachedUsers returns the cached users, the most recently used first.
func (c *tokenCache) cachedUsers(t *testing.T) []string {
	t.Helper()
	var users []string
	for element := c.order.Front(); element != nil; element = element.Next() {
		user := element.Value.(*cacheEntry).user
		users = append(users, user)
		require.Same(t, element, c.entries[user])
	}
	require.Len(t, c.entries, len(users))
	return users
}

func TestCacheDropsLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3, 8} {
		random := rand.New(rand.NewPCG(1, 2))
		c, model := tokenCache{limit: limit}, []string{}
		for seq := range uint64(5000) {
			user := fmt.Sprint(random.IntN(14))
			at := slices.Index(model, user)
			require.Equal(t, at >= 0, c.get(user) != nil)
			if at >= 0 {
				model = slices.Delete(model, at, at+1)
			}
			if random.IntN(5) == 0 {
				c.remove(user, seq)
			} else {
				c.put(user, &call{seq: seq + 1}, &cachedToken{seq: seq + 1})
				model = append([]string{user}, model...)
				model = model[:min(len(model), limit)]
			}
			require.Equal(t, model, append([]string{}, c.cachedUsers(t)...))
		}
	}
}

func TestCacheKeepsLaterResult(t *testing.T) {
	t.Parallel()
	c := tokenCache{limit: 2}
	early, late := &cachedToken{seq: 1}, &cachedToken{seq: 2}
	assert.Same(t, late, c.put("a", &call{seq: 2}, late))
	assert.Same(t, early, c.put("a", &call{seq: 1}, early), "the caller still gets its own result")
	assert.Same(t, late, c.get("a"))
	assert.Same(t, late, c.put("a", &call{seq: 2}, &cachedToken{seq: 2}), "callers of one call share a token")
	c.remove("a", 1)
	assert.Same(t, late, c.get("a"), "a later call stored it")
	outdated := &call{seq: 3}
	outdated.outdated.Store(true)
	c.put("a", outdated, &cachedToken{seq: 3})
	assert.Same(t, late, c.get("a"))
	c.remove("a", 2)
	assert.Nil(t, c.get("a"))
}
