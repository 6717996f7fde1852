package dispensary_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// One user gets a 429; what both of them do next comes when the time has passed,
// or fails at once where that is too long. The platform's journal says so.
func TestRetryAfterIsHonouredForAllUsers(t *testing.T) {
	t.Parallel()
	for name, asked := range map[string]time.Duration{"within the cap": 20 * time.Second, "beyond the cap": 90 * time.Second} {
		for with, options := range limited(t) {
			t.Run(name+", "+with, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					platform := dispensarytest.New(t, dispensarytest.WithInMemory())
					users := platform.Users()
					require.GreaterOrEqual(t, len(users), 2)
					root := platform.Client(users[0], options()...)
					jane, john := root.WithTokenSource(platform.TokenSource(users[0])), root.WithTokenSource(platform.TokenSource(users[1]))
					platform.Fault(model.Fault{Effect: model.TooManyRequests, Times: 1, RetryAfter: asked})
					search := func(c *dispensary.Client) error {
						_, err := c.Catalog.Products.List(t.Context(), catalog.ProductListOptions{})
						return err
					}
					var group sync.WaitGroup
					group.Go(func() { _ = search(jane) })
					synctest.Wait()
					for range 3 {
						for _, c := range []*dispensary.Client{jane, john} {
							group.Go(func() {
								if err := search(c); asked > time.Minute {
									assert.ErrorIs(t, err, dispensary.ErrRateLimited)
									assert.ErrorIs(t, err, dispensary.ErrNotSent)
								} else {
									assert.NoError(t, err)
								}
							})
						}
					}
					group.Wait()
					time.Sleep(asked)
					require.NoError(t, search(jane))
					require.NoError(t, search(john))
					requests := platform.Journal().Requests()
					require.Equal(t, asked, requests[0].RetryAfter)
					assert.GreaterOrEqual(t, requests[1].At.Sub(requests[0].At), asked, "for both users")
					platform.Journal().CheckBackoffHonoured(t)
				})
			})
		}
	}
}

// limited are the options of a client with a rate limiter and without.
func limited(t *testing.T) map[string]func() []dispensary.Option {
	return map[string]func() []dispensary.Option{
		"no limiter": func() []dispensary.Option { return nil },
		"limiter": func() []dispensary.Option {
			limiter, err := dispensary.NewRateLimiter(5000, 5*time.Minute)
			require.NoError(t, err)
			return []dispensary.Option{dispensary.WithLimiter(limiter)}
		},
	}
}
