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

// starts records when requests of a limiter start.
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

// saturate keeps so many requests of a priority waiting until ctx ends.
func (s *starts) saturate(ctx context.Context, p api.Priority, workers int) {
	for range workers {
		go func() {
			for s.wait(ctx, p) == nil {
			}
		}()
	}
}

// rest waits until nothing happens any more; what was recorded may be read then.
func (s *starts) rest() {
	synctest.Wait()
	s.mu.Lock()
	s.t.Cleanup(s.mu.Unlock)
}

// check looks at every period.
func (s *starts) check(requests int, per time.Duration) {
	s.t.Helper()
	for i := requests; i < len(s.at); i++ {
		require.GreaterOrEqual(s.t, s.at[i]-s.at[i-requests], per)
	}
}

// However much is asked for, no period sees more than the limit, nearly all of it is used, and
// people do not wait.
func TestPeopleDoNotWaitForTheBackground(t *testing.T) {
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
			assert.Greater(t, s.of[p], len(s.at)/50, "%s has its part", p)
			assert.Less(t, s.of[p], len(s.at)/5, "%s comes after others", p)
		}
	})
}

// Those who wait start by their priority, and in the order of their coming.
func TestPrioritiesGoInTheirOrder(t *testing.T) {
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

// The background does not take all of the limit at once.
func TestTheBackgroundIsSpreadOverThePeriod(t *testing.T) {
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

// Background work of a lower priority has its turn where people take all there is.
func TestNothingWaitsWithoutEnd(t *testing.T) {
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

func TestLongestPauseCounts(t *testing.T) {
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

func TestLimiterSaysWhatIsLeft(t *testing.T) {
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

// 2,000 background requests wait. One that cannot start before its deadline fails at once,
// although few have started in a long time.
func TestLimiterFailsAtOnceBehindManyOthers(t *testing.T) {
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

// A burst up to the limit passes at once; the next request waits for the first to be a period
// ago.
func TestLimiterLetsABurstPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStarts(t, 3, time.Minute)
		for range 4 {
			require.NoError(t, s.wait(t.Context(), api.PriorityInteractive))
		}
		assert.Equal(t, []time.Duration{0, 0, 0, time.Minute}, s.at)
	})
}

// A wait that would outlast the deadline is not begun, and one that fails takes no turn.
func TestLimiterKnowsTheDeadline(t *testing.T) {
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

// One who leaves gets the error of the context at once, and takes no turn from those behind.
func TestLimiterLetsCallersLeave(t *testing.T) {
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
		require.ErrorIs(t, s.wait(ctx, api.PriorityInteractive), context.Canceled, "although there is room")
		s.rest()
		assert.Equal(t, []time.Duration{0, time.Minute}, s.at)
		assert.Equal(t, 1, s.limiter.(*ratelimit.Limiter).Left())
	})
}
