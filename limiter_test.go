package dispensary_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
)

// However requests are spread, no period sees more of them than allowed.
func TestRateLimiterHoldsInEveryPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const requests, per = 10, 5 * time.Second
		limiter, err := dispensary.NewRateLimiter(requests, per)
		require.NoError(t, err)
		var sent []time.Time
		for i := range 47 {
			if i%7 == 0 {
				time.Sleep(700 * time.Millisecond)
			}
			require.NoError(t, limiter.Wait(t.Context()))
			sent = append(sent, time.Now())
		}
		for i := requests; i < len(sent); i++ {
			assert.GreaterOrEqual(t, sent[i].Sub(sent[i-requests]), per)
		}
	})
}

func TestRateLimiterLetsABurstPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, err := dispensary.NewRateLimiter(3, time.Minute)
		require.NoError(t, err)
		start := time.Now()
		for range 3 {
			require.NoError(t, limiter.Wait(t.Context()))
		}
		assert.Zero(t, time.Since(start))
		require.NoError(t, limiter.Wait(t.Context()))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestRateLimiterKnowsTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, err := dispensary.NewRateLimiter(1, time.Minute)
		require.NoError(t, err)
		require.NoError(t, limiter.Wait(t.Context()))

		short, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		start := time.Now()
		assert.Error(t, limiter.Wait(short))
		assert.Zero(t, time.Since(start), "a wait in vain is not begun")

		long, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		assert.NoError(t, limiter.Wait(long), "the one that failed took no turn")
	})
}

func TestRateLimiterReturnsWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, err := dispensary.NewRateLimiter(1, time.Minute)
		require.NoError(t, err)
		require.NoError(t, limiter.Wait(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		start := time.Now()
		assert.ErrorIs(t, limiter.Wait(ctx), context.Canceled)
		assert.Equal(t, time.Second, time.Since(start))
		assert.ErrorIs(t, limiter.Wait(ctx), context.Canceled)
	})
}

func TestRateLimiterRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, per := range []time.Duration{0, -1} {
		_, err := dispensary.NewRateLimiter(1, per)
		assert.ErrorIs(t, err, dispensary.ErrInvalidArgument)
	}
	_, err := dispensary.NewRateLimiter(0, time.Second)
	assert.ErrorIs(t, err, dispensary.ErrInvalidArgument)
}
