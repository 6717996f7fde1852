package accounts

import (
	"context"
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

func TestSourceCacheKeepsApplicationsApart(t *testing.T) {
	t.Parallel()
	c := sourceCache{limit: 3}
	key := sourceKey{&application{}, "1"}
	first := c.get(key, newSource)
	c.forget(sourceKey{key.app, "2"})
	c.forget(key)
	assert.Same(t, first, c.get(key, newSource), "it reads the store again, and stays")
	assert.NotSame(t, first, c.get(sourceKey{&application{}, "1"}, newSource), "each application has its own users")
}

// The cache against a slice that does the same, slowly.
func TestSourceCacheAgainstAModel(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3, 8} {
		againstAModel(t, limit)
	}
}

func againstAModel(t *testing.T, limit int) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	c, model := sourceCache{limit: limit}, []string{}
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
		model = model[:min(len(model), limit)]
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

// SourceForTest returns what a client of user is authorized by.
func (a *Accounts) SourceForTest(ctx context.Context, user string) (*tokens.TokenSource, error) {
	app, err := a.locate(ctx, user)
	if err != nil {
		return nil, err
	}
	return a.source(app, user), nil
}
