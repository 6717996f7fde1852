package accounts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth"
)

// users returns the cached users, the newest first, and checks both directions.
func (c *sourceCache) users(t *testing.T) []string {
	t.Helper()
	var forward, backward []string
	if entry := c.newest; entry != nil {
		for range len(c.entries) {
			forward = append(forward, entry.key.user)
			entry = entry.older
		}
		require.Same(t, c.newest, entry, "the ring closes")
		for range len(c.entries) {
			entry = entry.newer
			backward = append(backward, entry.key.user)
		}
	}
	slices.Reverse(backward)
	require.Equal(t, forward, backward)
	return forward
}

func TestSourceCacheDropsWhoWasNotUsedForLongest(t *testing.T) {
	t.Parallel()
	c := sourceCache{limit: 3}
	a := &application{}
	key := func(user string) sourceKey { return sourceKey{a, user} }
	for _, user := range []string{"1", "2", "3"} {
		c.put(key(user), &oauth.UserTokenSource{})
	}
	assert.Equal(t, []string{"3", "2", "1"}, c.users(t))
	assert.NotNil(t, c.get(key("1")))
	assert.NotNil(t, c.get(key("1")))
	assert.Equal(t, []string{"1", "3", "2"}, c.users(t))
	first := c.put(key("4"), &oauth.UserTokenSource{})
	assert.Equal(t, []string{"4", "1", "3"}, c.users(t))
	assert.Nil(t, c.get(key("2")))
	assert.Nil(t, c.get(sourceKey{&application{}, "4"}), "each application has its own users")
	assert.Same(t, first, c.put(key("4"), &oauth.UserTokenSource{}), "the first one stays")
	c.forget(key("2"))
	c.forget(key("4"))

	one := sourceCache{limit: 1}
	for i := range 5 {
		one.put(key(fmt.Sprint(i)), &oauth.UserTokenSource{})
		assert.Equal(t, []string{fmt.Sprint(i)}, one.users(t))
	}
}

// The cache against a slice that does the same, slowly.
func TestSourceCacheAgainstAModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	c, model := sourceCache{limit: 8}, []string{}
	a := &application{}
	for range 5000 {
		user := fmt.Sprint(random.IntN(14))
		at := slices.Index(model, user)
		if at >= 0 {
			require.NotNil(t, c.get(sourceKey{a, user}))
			model = slices.Delete(model, at, at+1)
		} else {
			require.Nil(t, c.get(sourceKey{a, user}))
			c.put(sourceKey{a, user}, &oauth.UserTokenSource{})
		}
		model = append([]string{user}, model...)
		model = model[:min(len(model), 8)]
		require.Equal(t, model, c.users(t))
	}
}

func TestSourceCacheFromManyGoroutines(t *testing.T) {
	t.Parallel()
	c := sourceCache{limit: 10}
	a := &application{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				key := sourceKey{a, fmt.Sprint(i % 30)}
				if c.get(key) == nil {
					c.put(key, &oauth.UserTokenSource{})
				}
				c.forget(key)
			}
		})
	}
	all.Wait()
	assert.Len(t, c.users(t), 10)
}
