package accounts_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/ratelimit"
)

const limitRequests, limitPer = 200, 5 * time.Minute

// newLimitedFixture returns users with expired tokens and a platform with a rate limit.
func newLimitedFixture(t *testing.T, users int) (f *fixture, rejections interface{ Fired() int }) {
	t.Helper()
	limiter, err := ratelimit.New(limitRequests, limitPer)
	require.NoError(t, err)
	f = newFixture(t, 1, func(c *accounts.Config) { c.Applications[0].Limiter = limiter })
	for i := range users {
		if i%50 == 0 {
			time.Sleep(limitPer) // connecting counts against the limit too
		}
		f.connect(t, 0, fmt.Sprint("us:dr-", i))
	}
	time.Sleep(3 * time.Hour)
	return f, f.platforms[0].Fault(model.Fault{Effect: model.EffectRateLimit, Limit: limitRequests, Window: limitPer})
}

// Refreshes and calls share the limit, so the platform rejects none of them.
func TestRefreshesAndCallsShareLimit(t *testing.T) {
	for name, together := range map[string]bool{"together": true, "one after the other": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f, rejections := newLimitedFixture(t, 150)
				began := time.Now()
				var calls sync.WaitGroup
				for i := range 150 {
					calls.Go(func() {
						_, err := f.client(t, fmt.Sprint("us:dr-", i)).Clinic.Get(t.Context())
						assert.NoError(t, err)
					})
					if !together {
						calls.Wait()
					}
				}
				calls.Wait()
				assert.Zero(t, rejections.Fired())
				assert.Less(t, time.Since(began), limitPer+time.Minute)
			})
		})
	}
}

// KeepFresh observes the limit and leaves capacity for calls of people.
func TestKeepFreshObservesLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f, rejections := newLimitedFixture(t, 400)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.accounts.KeepFresh(ctx, tokens.KeepFreshPolicy{}) }()
		time.Sleep(2 * limitPer)
		began := time.Now()
		_, err := f.client(t, "us:dr-0").Clinic.Get(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(began), time.Second)
		cancel()
		require.NoError(t, <-done)
		assert.Zero(t, rejections.Fired())
		fresh := 0
		for i := range 400 {
			record, err := f.store.Load(t.Context(), tokenstore.Key{Environment: f.platforms[0].Site().Environment, User: fmt.Sprint("us:dr-", i)})
			require.NoError(t, err)
			if record.Token.ExpiresAt.After(time.Now()) {
				fresh++
			}
		}
		assert.InDelta(t, 2*limitRequests, fresh, limitRequests/5)
	})
}
