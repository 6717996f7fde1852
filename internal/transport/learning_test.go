package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// learningLimiter records what it is asked and what it hears.
type learningLimiter struct {
	asked []api.Priority
	heard []api.LimitFeedback
	until time.Time
}

func (l *learningLimiter) Wait(ctx context.Context) error {
	l.asked = append(l.asked, api.PriorityOf(ctx))
	return nil
}

func (l *learningLimiter) Learn(f api.LimitFeedback) {
	l.heard = append(l.heard, f)
	l.until = time.Now().Add(f.Pause)
}

func (l *learningLimiter) Paused() time.Duration { return max(0, time.Until(l.until)) }

// What one client is answered holds back another one that shares its limiter, a view that has
// a limiter of its own too.
func TestClientsLearnTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &learningLimiter{}
		limited := func(c *Config) { c.Limiter, c.Retry = shared, api.RetryPolicy{MaxAttempts: 1} }
		one, other := newTestClient(t, refusing("7"), limited), newTestClient(t, refusing(), limited)
		require.ErrorIs(t, get(t.Context(), one), api.ErrRateLimited)
		assert.Equal(t, []api.LimitFeedback{{Pause: 7 * time.Second}}, shared.heard)

		took, err := held(t.Context(), other.WithLimiter(&learningLimiter{}))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, 7*time.Second)
		assert.Less(t, took, 8*time.Second)
		assert.Equal(t, []api.Priority{0, 0}, shared.asked)
	})
}

func TestPriorityOfACall(t *testing.T) {
	t.Parallel()
	limiter := &learningLimiter{}
	client := newTestClient(t, refusing(), func(c *Config) { c.Limiter = limiter })
	ctx := api.ContextWithPriority(t.Context(), api.PriorityReconcile)
	require.NoError(t, get(ctx, client))
	require.NoError(t, get(api.ContextWithDefaultPriority(ctx, api.PriorityCatalog), client))
	require.NoError(t, get(api.ContextWithDefaultPriority(t.Context(), api.PriorityCatalog), client))
	require.NoError(t, create(ctx, client, api.WithPriority(api.PriorityRefresh)))
	assert.Equal(t, []api.Priority{api.PriorityReconcile, api.PriorityReconcile, api.PriorityCatalog, api.PriorityRefresh}, limiter.asked)
	assert.Empty(t, limiter.heard)
}
