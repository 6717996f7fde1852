package ratelimit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// The platform's own count refuses none of the requests of eight processes, and people do not
// wait behind the background.
func TestFleetAtThePlatform(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	synctest.Test(t, func(t *testing.T) {
		const requests, per, processes = 5000, 5 * time.Minute, 8
		platform := dispensarytest.New(t, dispensarytest.WithInMemory())
		refused := platform.Fault(model.Fault{Effect: model.RateLimit, Limit: requests, Window: per})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		store := ratelimit.NewMemoryStore()
		var running sync.WaitGroup
		var answered atomic.Int64
		for i := range processes {
			fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: store, Requests: requests, Per: per, Processes: processes})
			require.NoError(t, err)
			client := platform.Client(model.User{}, dispensary.WithLimiter(fleet))
			call := func(p api.Priority) error {
				_, err := client.Clinic.Get(api.ContextWithPriority(ctx, p))
				if ctx.Err() == nil {
					assert.NoError(t, err)
					answered.Add(1)
				}
				return ctx.Err()
			}
			for p := api.PriorityRefresh; p <= api.PriorityCatalog; p++ {
				running.Go(func() {
					for call(p) == nil {
					}
				})
			}
			running.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				for ctx.Err() == nil {
					began := time.Now()
					if call(api.PriorityInteractive) == nil {
						assert.Less(t, time.Since(began), 50*time.Millisecond)
					}
					time.Sleep(5 * time.Second)
				}
			})
			t.Cleanup(func() { assert.NoError(t, fleet.Close(context.Background())) })
		}
		running.Wait()
		assert.Zero(t, refused.Fired())
		assert.GreaterOrEqual(t, answered.Load(), int64(2*requests*9/10))
		t.Log(answered.Load(), "requests")
	})
}
