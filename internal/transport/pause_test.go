package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority"
)

// pausingLimiter records the priorities of requests and the pauses.
type pausingLimiter struct {
	asked  []api.Priority
	pauses []time.Duration
	until  time.Time
}

func (l *pausingLimiter) Wait(ctx context.Context) error {
	l.asked = append(l.asked, priority.Of(ctx))
	return nil
}

func (l *pausingLimiter) Pause(d time.Duration) {
	l.pauses = append(l.pauses, d)
	l.until = time.Now().Add(d)
}

func (l *pausingLimiter) Paused() time.Duration { return max(0, time.Until(l.until)) }

// A pause applies to every client that shares the limiter, even through a view with a limiter
// of its own.
func TestClientsSharePauseOfLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &pausingLimiter{}
		limited := func(c *Config) { c.Limiter, c.Retry = shared, api.RetryPolicy{MaxAttempts: 1} }
		one, other := newTestClient(t, refusing("7"), limited), newTestClient(t, refusing(), limited)
		require.ErrorIs(t, get(t.Context(), one), api.ErrRateLimited)
		assert.Equal(t, []time.Duration{7 * time.Second}, shared.pauses)

		took, err := held(t.Context(), view(t, other, func(c *Config) { c.Limiter = &pausingLimiter{} }))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, 7*time.Second)
		assert.Less(t, took, 8*time.Second)
		assert.Equal(t, []api.Priority{0, 0}, shared.asked)
	})
}

func TestLimiterReceivesPriorityOfCall(t *testing.T) {
	t.Parallel()
	limiter := &pausingLimiter{}
	client := newTestClient(t, refusing(), func(c *Config) { c.Limiter = limiter })
	ctx := api.ContextWithPriority(t.Context(), api.PriorityReconcile)
	require.NoError(t, get(ctx, client))
	require.NoError(t, get(priority.WithDefault(ctx, api.PriorityCatalog), client))
	require.NoError(t, get(priority.WithDefault(t.Context(), api.PriorityCatalog), client))
	require.NoError(t, create(api.ContextWithPriority(ctx, api.PriorityRefresh), client))
	assert.Equal(t, []api.Priority{api.PriorityReconcile, api.PriorityReconcile, api.PriorityCatalog, api.PriorityRefresh}, limiter.asked)
	assert.Empty(t, limiter.pauses)
}
