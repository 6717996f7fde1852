package accounts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/oauth/tokens"
)

func newSource() *tokens.TokenSource { return &tokens.TokenSource{} }

// users returns the cached users, the most recently used first.
func (c *sourceCache) users(t *testing.T) []string {
	t.Helper()
	var users []string
	for element := c.order.Front(); element != nil; element = element.Next() {
		key := element.Value.(*cachedSource).key
		users = append(users, key.user)
		require.Same(t, element, c.entries[key])
	}
	require.Len(t, c.entries, len(users))
	return users
}

func TestSourceCacheDropsTheLeastRecentlyUsed(t *testing.T) {
	t.Parallel()
	c := sourceCache{limit: 3}
	a := &application{}
	key := func(user string) sourceKey { return sourceKey{a, user} }
	for _, user := range []string{"1", "2", "3"} {
		c.get(key(user), newSource)
	}
	assert.Equal(t, []string{"3", "2", "1"}, c.users(t))
	first := c.get(key("1"), newSource)
	assert.Same(t, first, c.get(key("1"), newSource), "the first one stays")
	assert.Equal(t, []string{"1", "3", "2"}, c.users(t))
	c.get(key("4"), newSource)
	assert.Equal(t, []string{"4", "1", "3"}, c.users(t))
	c.forget(key("2"))
	c.forget(key("4"))
	other := c.get(sourceKey{&application{}, "4"}, newSource)
	assert.NotSame(t, c.get(key("4"), newSource), other, "each application has its own users")

	one := sourceCache{limit: 1}
	for i := range 5 {
		one.get(key(fmt.Sprint(i)), newSource)
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
		user, made := fmt.Sprint(random.IntN(14)), false
		at := slices.Index(model, user)
		c.get(sourceKey{a, user}, func() *tokens.TokenSource { made = true; return newSource() })
		require.Equal(t, at < 0, made)
		if at >= 0 {
			model = slices.Delete(model, at, at+1)
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
				c.get(key, newSource)
				c.forget(key)
			}
		})
	}
	all.Wait()
	assert.Len(t, c.users(t), 10)
}
