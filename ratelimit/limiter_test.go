package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// starts records the times at which requests of a limiter start.
type starts struct {
	t       *testing.T
	limiter api.Limiter
	began   time.Time

	mu    sync.Mutex
	order []api.Priority
	at    []time.Duration
	of    map[api.Priority]int
}

func newStarts(t *testing.T, requests int, per time.Duration) *starts {
	t.Helper()
	limiter, err := ratelimit.New(requests, per)
	require.NoError(t, err)
	return &starts{t: t, limiter: limiter, began: time.Now(), of: map[api.Priority]int{}}
}

func (s *starts) wait(ctx context.Context, p api.Priority) error {
	err := s.limiter.Wait(api.ContextWithPriority(ctx, p))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.order, s.at = append(s.order, p), append(s.at, time.Since(s.began))
		s.of[p]++
	}
	return err
}

// saturate keeps workers requests of a priority waiting until ctx ends.
func (s *starts) saturate(ctx context.Context, p api.Priority, workers int) {
	for range workers {
		go func() {
			for s.wait(ctx, p) == nil {
			}
		}()
	}
}

// rest waits until all requests are blocked. The records may then be read.
func (s *starts) rest() {
	synctest.Wait()
	s.mu.Lock()
	s.t.Cleanup(s.mu.Unlock)
}

// check checks every period.
func (s *starts) check(requests int, per time.Duration) {
	s.t.Helper()
	for i := requests; i < len(s.at); i++ {
		require.GreaterOrEqual(s.t, s.at[i]-s.at[i-requests], per)
	}
}

// Under any load, no period contains more requests than the limit, nearly the whole limit is
// used, and interactive requests do not wait.
func TestInteractiveRequestsDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const requests, per = 500, 5 * time.Minute
		s := newStarts(t, requests, per)
		ctx, cancel := context.WithTimeout(t.Context(), 4*per)
		defer cancel()
		s.saturate(ctx, api.PriorityRefresh, 3)
		s.saturate(ctx, api.PriorityReconcile, 3)
		s.saturate(ctx, api.PriorityCatalog, 3)
		for ctx.Err() == nil {
			time.Sleep(7 * time.Second)
			asked := time.Now()
			if s.wait(ctx, api.PriorityInteractive) == nil {
				assert.Zero(t, time.Since(asked))
			}
		}
		s.rest()
		s.check(requests, per)
		assert.Greater(t, len(s.at), 4*requests*95/100)
		for _, p := range []api.Priority{api.PriorityReconcile, api.PriorityCatalog} {
			assert.Greater(t, s.of[p], len(s.at)/50, "%s gets its part", p)
			assert.Less(t, s.of[p], len(s.at)/5, "%s gets less than higher priorities", p)
		}
	})
}

// Waiting requests start by priority, and then in order of arrival.
func TestRequestsStartByPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 1, time.Second)
		require.NoError(t, s.wait(t.Context(), api.PriorityInteractive))
		for p := api.PriorityCatalog; p <= api.PriorityCatalog; p-- {
			go func() { _ = s.wait(t.Context(), p) }()
			synctest.Wait()
		}
		time.Sleep(6 * time.Second)
		s.rest()
		assert.Equal(t, []api.Priority{0, 0, 1, 2, 3, 4}, s.order)
	})
}

// Background requests do not use the whole limit at once.
func TestBackgroundIsSpreadOverPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const requests, per = 1000, 1000 * time.Second
		s := newStarts(t, requests, per)
		ctx, cancel := context.WithTimeout(t.Context(), per/2)
		defer cancel()
		s.saturate(ctx, api.PriorityCatalog, 1)
		<-ctx.Done()
		s.rest()
		assert.InDelta(t, requests/2, len(s.at), requests/10)
		assert.NoError(t, s.limiter.Wait(t.Context()))
	})
}

// Lower priorities have their turns even if interactive requests need the whole limit.
func TestNoPriorityStarves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 10, 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s.saturate(ctx, api.PriorityInteractive, 5)
		s.saturate(ctx, api.PriorityCatalog, 5)
		<-ctx.Done()
		s.rest()
		s.check(10, 10*time.Second)
		assert.InDelta(t, len(s.at)/40, s.of[api.PriorityCatalog], 2)
	})
}

func TestLongestPauseApplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter, err := ratelimit.New(100, time.Minute)
		require.NoError(t, err)
		assert.Zero(t, limiter.Paused())
		limiter.Pause(time.Minute)
		limiter.Pause(time.Second)
		time.Sleep(20 * time.Second)
		assert.Equal(t, 40*time.Second, limiter.Paused())
		time.Sleep(time.Hour)
		assert.Zero(t, limiter.Paused())
	})
}

func TestLimiterReportsRemainingRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := ratelimit.New(10, time.Minute)
		require.NoError(t, err)
		assert.Equal(t, 10, l.Left())
		for range 4 {
			require.NoError(t, l.Wait(t.Context()))
		}
		assert.Equal(t, 6, l.Left())
		time.Sleep(time.Minute)
		assert.Equal(t, 10, l.Left())
	})
}

// 2,000 background requests wait. A request fails at once if it cannot start before its
// deadline, even though few requests have started for a long time.
func TestLimiterFailsHopelessWaitsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 5000, 5*time.Minute)
		require.NoError(t, s.wait(t.Context(), api.PriorityInteractive))
		time.Sleep(time.Hour)
		all, stop := context.WithCancel(t.Context())
		for range 2000 {
			go func() { _ = s.wait(all, api.PriorityCatalog) }()
		}
		time.Sleep(time.Second)
		began := time.Now()
		for _, timeout := range []time.Duration{500 * time.Millisecond, time.Minute} {
			ctx, cancel := context.WithTimeout(all, timeout)
			defer cancel()
			require.ErrorIs(t, s.wait(ctx, api.PriorityCatalog), ratelimit.ErrDeadline)
		}
		assert.Zero(t, time.Since(began))
		stop()
		s.rest()
	})
}

// A burst up to the limit starts at once. The next request waits until the first is one period
// old.
func TestLimiterAllowsBursts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 3, time.Minute)
		for range 4 {
			require.NoError(t, s.wait(t.Context(), api.PriorityInteractive))
		}
		assert.Equal(t, []time.Duration{0, 0, 0, time.Minute}, s.at)
	})
}

// A wait that would be longer than the deadline fails at once, and a failed wait uses none of
// the limit.
func TestLimiterRejectsLateDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 1, time.Minute)
		require.NoError(t, s.wait(t.Context(), api.PriorityInteractive))
		time.Sleep(30 * time.Second)
		short, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		require.ErrorIs(t, s.wait(short, api.PriorityInteractive), ratelimit.ErrDeadline)
		assert.Equal(t, 30*time.Second, time.Since(s.began))
		long, cancel := context.WithTimeout(t.Context(), 31*time.Second)
		defer cancel()
		require.NoError(t, s.wait(long, api.PriorityInteractive))
		assert.Equal(t, []time.Duration{0, time.Minute}, s.at)
	})
}

// A canceled caller gets the error of its context at once, and does not delay the requests
// behind it.
func TestCanceledLimiterWaitEndsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 1, time.Minute)
		require.NoError(t, s.wait(t.Context(), api.PriorityInteractive))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		go func() {
			time.Sleep(time.Second / 2)
			_ = s.wait(t.Context(), api.PriorityInteractive)
		}()
		require.ErrorIs(t, s.wait(ctx, api.PriorityInteractive), context.Canceled)
		assert.Equal(t, time.Second, time.Since(s.began))
		time.Sleep(time.Hour)
		require.ErrorIs(t, s.wait(ctx, api.PriorityInteractive), context.Canceled, "a canceled wait fails even if the limit has room")
		s.rest()
		assert.Equal(t, []time.Duration{0, time.Minute}, s.at)
		assert.Equal(t, 1, s.limiter.(*ratelimit.Limiter).Left())
	})
}
