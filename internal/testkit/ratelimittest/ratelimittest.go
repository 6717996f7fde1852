// Package ratelimittest contains the conformance suite for a [ratelimit.Store]. It also tests a
// fleet while the server of its store is killed.
package ratelimittest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/ratelimit"
)

// Run tests a store. open returns an empty store and closes it after its test.
func Run(t *testing.T, open func(*testing.T) ratelimit.Store) {
	for name, test := range map[string]func(*testing.T, ratelimit.Store){
		"Limit":        testLimit,
		"Windows":      testWindows,
		"Past":         testPast,
		"Names":        testNames,
		"Pause":        testPause,
		"Canceled":     testCanceled,
		"Concurrently": testConcurrently,
		"Fleet":        testFleet,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// hourly returns a window of one hour, which is longer than any test.
func hourly(starts int) ratelimit.Window { return ratelimit.Window{Starts: starts, Per: time.Hour} }

func take(t *testing.T, s ratelimit.Store, name string, past, want int, windows ...ratelimit.Window) ratelimit.Taken {
	t.Helper()
	taken, err := s.Take(t.Context(), name, past, want, windows...)
	require.NoError(t, err)
	assert.LessOrEqual(t, taken.Starts, want)
	assert.Equal(t, taken.Starts < want, taken.Wait > 0, "Wait must be positive only if starts are missing: %+v", taken)
	assert.LessOrEqual(t, taken.Wait, windows[0].Per)
	return taken
}

func testLimit(t *testing.T, s ratelimit.Store) {
	assert.Equal(t, 2, take(t, s, "limit", 0, 2, hourly(3)).Starts)
	assert.Zero(t, take(t, s, "limit", 0, 0, hourly(3)))
	assert.Zero(t, take(t, s, "limit", 0, 1, hourly(3), hourly(2)).Starts, "the second window is full")
	partly := take(t, s, "limit", 0, 2, hourly(3))
	assert.Equal(t, 1, partly.Starts)
	assert.Greater(t, partly.Wait, time.Hour-time.Minute)
}

// testWindows checks that each window permits one more start as soon as its oldest start is as
// old as the window.
func testWindows(t *testing.T, s ratelimit.Store) {
	short := ratelimit.Window{Starts: 2, Per: 200 * time.Millisecond}
	began := time.Now()
	first := take(t, s, "limit", 0, 3, hourly(5), hourly(4), short)
	assert.Equal(t, 2, first.Starts)
	assert.LessOrEqual(t, first.Wait, short.Per)
	for range 2 {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, 1, take(t, s, "limit", 0, 1, hourly(5), hourly(4), short).Starts)
		}, time.Minute, 5*time.Millisecond)
	}
	assert.GreaterOrEqual(t, time.Since(began), short.Per-time.Millisecond)
	assert.Greater(t, take(t, s, "limit", 0, 1, hourly(5), hourly(4), short).Wait, short.Per, "Wait must be the longest wait")
	assert.Equal(t, 1, take(t, s, "limit", 0, 1, hourly(5)).Starts)
}

// testPast checks that the store counts all requests sent without it, even above the limit.
func testPast(t *testing.T, s ratelimit.Store) {
	assert.Equal(t, 1, take(t, s, "limit", 2, 1, hourly(4)).Starts)
	assert.Equal(t, 1, take(t, s, "limit", 0, 2, hourly(4)).Starts)
	take(t, s, "limit", 30, 0, hourly(4))
	assert.Zero(t, take(t, s, "limit", 0, 1, hourly(4)).Starts)
}

func testNames(t *testing.T, s ratelimit.Store) {
	for _, name := range []string{"", "limit", "LIMIT", "limit:a", "limit a", "{limit}", "}", "ü'\"\\%_"} {
		assert.Equal(t, 1, take(t, s, name, 0, 2, hourly(1)).Starts, "each name must have its own limit")
		assert.Zero(t, take(t, s, name, 0, 1, hourly(1)).Pause)
		require.NoError(t, s.Pause(t.Context(), name, time.Hour))
	}
}

func testPause(t *testing.T, s ratelimit.Store) {
	require.NoError(t, s.Pause(t.Context(), "limit", time.Hour))
	require.NoError(t, s.Pause(t.Context(), "limit", time.Minute))
	taken := take(t, s, "limit", 0, 1, hourly(1))
	assert.Equal(t, 1, taken.Starts, "a pause must not prevent a start")
	assert.InDelta(t, time.Hour, taken.Pause, float64(time.Minute))
	assert.Positive(t, take(t, s, "limit", 0, 1, hourly(1)).Pause)

	require.NoError(t, s.Pause(t.Context(), "short", 50*time.Millisecond))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Zero(c, take(t, s, "short", 0, 0, hourly(1)).Pause)
	}, time.Minute, 5*time.Millisecond)
}

func testCanceled(t *testing.T, s ratelimit.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Take(ctx, "limit", 0, 1, hourly(1))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Pause(ctx, "limit", time.Minute), context.Canceled)
	assert.Equal(t, ratelimit.Taken{Starts: 1}, take(t, s, "limit", 0, 1, hourly(1)))
}

func testConcurrently(t *testing.T, s ratelimit.Store) {
	var starts atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				starts.Add(int32(take(t, s, "limit", 0, 2, hourly(100), hourly(90)).Starts))
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 90, starts.Load())
}

// join returns the limiter of a process in a fleet of two, with ten requests per hour.
func join(t *testing.T, s ratelimit.Store, timeout time.Duration) *ratelimit.Fleet {
	t.Helper()
	member, err := ratelimit.NewFleet(ratelimit.FleetConfig{
		Store: s, Name: "fleet", Requests: 10, Per: time.Hour, Processes: 2, Timeout: timeout,
	})
	require.NoError(t, err)
	return member
}

// send sends up to n requests and returns the number of starts.
func send(t *testing.T, member *ratelimit.Fleet, n int) (starts int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for range n {
		if err := member.Wait(ctx); err != nil {
			assert.ErrorIs(t, err, ratelimit.ErrDeadline)
			return starts
		}
		starts++
	}
	return starts
}

func testFleet(t *testing.T, s ratelimit.Store) {
	assert.Equal(t, 6, send(t, join(t, s, time.Minute), 6))
	assert.Equal(t, 4, send(t, join(t, s, time.Minute), 5))
}

// Server is the server of a store.
type Server struct {
	Store ratelimit.Store

	// Kill ends the server like a crash. The records may be lost. Start restarts the server.
	Kill, Start func()
}

// RunKilled tests a fleet while the server of its store is killed and restarted. Calls to a
// killed server must fail instead of hanging.
func RunKilled(t *testing.T, server Server) {
	// The fleet calls the store again after a few timeouts. The counts below also hold if a busy
	// store responds later.
	const timeout = 500 * time.Millisecond
	member := join(t, server.Store, timeout)
	require.Equal(t, 3, send(t, member, 3))
	server.Kill()
	assert.Equal(t, 2, send(t, member, 3), "the share of a process is five")
	server.Start()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Equal(c, 1, send(t, member, 1), "the store must work again")
	}, time.Minute, 50*time.Millisecond)
	assert.LessOrEqual(t, send(t, join(t, server.Store, timeout), 10), 7, "the store must count the two starts during the outage")
}
