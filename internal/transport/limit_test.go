package transport

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/apikit"
)

// quota responds to the first requests with 429 and their headers, and to all others with
// success. It records the time of each request since start.
type quota struct {
	mu         sync.Mutex
	start      time.Time
	rejections []http.Header // in order
	came       []time.Duration
}

func rejecting(waits ...string) *quota {
	q := &quota{start: time.Now()}
	for _, wait := range waits {
		q.rejections = append(q.rejections, http.Header{"Retry-After": {wait}})
	}
	return q
}

func (q *quota) RoundTrip(*http.Request) (*http.Response, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.came = append(q.came, time.Since(q.start))
	if n := len(q.came); n <= len(q.rejections) {
		return reply(http.StatusTooManyRequests, `{"error":"Rate limit exceeded"}`, "Retry-After", q.rejections[n-1].Get("Retry-After")), nil
	}
	return reply(http.StatusOK, `{"patient":{"id":"p1"}}`), nil
}

func (q *quota) times() []time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]time.Duration(nil), q.came...)
}

// held returns the duration and the error of a call.
func held(ctx context.Context, c *Client) (time.Duration, error) {
	start := time.Now()
	err := get(ctx, c)
	return time.Since(start), err
}

func TestRetryAfterPausesAllViews(t *testing.T) {
	t.Parallel()
	for name, limiter := range map[string]api.Limiter{
		"no limiter": nil, "limiter": limiterFunc(func(context.Context) error { return nil }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				platform := rejecting("30")
				client := newTestClient(t, platform, func(c *Config) { c.Limiter = limiter })
				var group sync.WaitGroup
				group.Go(func() { assert.NoError(t, get(t.Context(), client)) })
				synctest.Wait() // rejected
				for range 5 {
					group.Go(func() {
						assert.NoError(t, get(t.Context(), view(t, client, withTokens(static{validToken()}))))
						assert.NoError(t, create(t.Context(), view(t, client, withTokens(static{validToken()})), api.WithoutRetries()))
					})
				}
				synctest.Wait()
				assert.Len(t, platform.times(), 1, "no request is sent during the pause")
				group.Wait()
				came := platform.times()
				assert.Len(t, came, 12)
				for _, at := range came[1:] {
					assert.GreaterOrEqual(t, at, 30*time.Second)
					assert.Less(t, at, 31*time.Second)
				}
			})
		})
	}
}

func TestLongRetryAfterFailsAllCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform := rejecting("90")
		client := newTestClient(t, platform)
		took, err := held(t.Context(), client)
		require.ErrorIs(t, err, api.ErrRateLimited)
		assert.Zero(t, took)

		time.Sleep(10 * time.Second)
		for _, call := range []func(context.Context, *Client) error{get, createOnce} {
			start := time.Now()
			err = call(t.Context(), view(t, client, withTokens(static{validToken()})))
			assert.Zero(t, time.Since(start))
			require.ErrorIs(t, err, api.ErrRateLimited)
			require.ErrorIs(t, err, api.ErrNotSent)
			failure := failureOf(t, err)
			assert.Equal(t, 80*time.Second, failure.RetryAfter)
			assert.Zero(t, failure.Attempts)
			assert.Zero(t, failure.StatusCode)
			assert.Contains(t, err.Error(), "rate limited by the platform for another")
		}
		assert.Len(t, platform.times(), 1)

		time.Sleep(21 * time.Second) // the rest is within the limit
		took, err = held(t.Context(), client)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, 59*time.Second)
	})
}

func TestRetryAfterRespectsCallDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform := rejecting("30")
		client := newTestClient(t, platform)
		_, err := held(t.Context(), client.withoutRetries())
		require.ErrorIs(t, err, api.ErrRateLimited)

		short, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		took, err := held(short, client)
		require.ErrorIs(t, err, api.ErrRateLimited)
		require.ErrorIs(t, err, api.ErrNotSent)
		assert.Zero(t, took, "a call does not wait beyond its deadline")

		leaving, leave := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, leave)
		took, err = held(leaving, client)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, api.ErrNotSent)
		assert.Equal(t, 5*time.Second, took)

		long, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		took, err = held(long, client)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, took, 25*time.Second)
		assert.Len(t, platform.times(), 2)
	})
}

// withoutRetries returns a view that sends each call once.
func (c *Client) withoutRetries() *Client {
	view := *c.core
	view.config.Retry.MaxAttempts = 1
	return &Client{&view}
}

func TestOtherResponsesCauseNoPause(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]func() (*http.Response, error){
		"no time":     responding(429, `{"error":"Rate limit exceeded"}`),
		"no number":   responding(429, `{"error":"Rate limit exceeded"}`, "Retry-After", "soon"),
		"unavailable": responding(503, `{"error":"Down"}`, "Retry-After", "30"),
		"reset only":  responding(429, `{"error":"Rate limit exceeded"}`, exhausted...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newTestClient(t, turns(response, found))
				require.Error(t, get(t.Context(), client.withoutRetries()))
				took, err := held(t.Context(), client)
				require.NoError(t, err)
				assert.Zero(t, took)
			})
		})
	}
	t.Run("another root client", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			platform := rejecting("30")
			require.Error(t, get(t.Context(), newTestClient(t, platform).withoutRetries()))
			took, err := held(t.Context(), newTestClient(t, platform))
			require.NoError(t, err)
			assert.Zero(t, took)
		})
	})
}

// exhausted are the headers of a rate limit without a remaining request for 30 seconds.
var exhausted = []string{
	"RateLimit", `"default";r=0;t=30`, "RateLimit-Policy", `"default";q=10;w=60`,
	"RateLimit-Remaining", "0", "RateLimit-Reset", "30", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "30",
}

// Only Retry-After causes a pause.
func TestClientIgnoresRateLimitHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limiter := &pausingLimiter{}
		client := newTestClient(t, turns(
			responding(200, `{"patient":{"id":"p1"}}`, exhausted...),
			responding(429, `{"error":"Rate limit exceeded"}`, slices.Concat(exhausted, []string{"Retry-After", "3"})...),
			found,
		), func(c *Config) { c.Limiter = limiter })
		require.NoError(t, get(t.Context(), client))
		assert.Empty(t, limiter.pauses)
		took, err := held(t.Context(), client)
		require.NoError(t, err)
		assert.InDelta(t, 3*time.Second, took, float64(time.Second))
		assert.Equal(t, []time.Duration{3 * time.Second}, limiter.pauses)
	})
}

// A gateway cannot make the calls of a client fail with a long Retry-After.
func TestUnprovenPauseFailsNoOtherCall(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"page": "<html>slow down</html>", "JSON without request ID": `{"message":"Too Many Requests"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := newTestClient(t, turns(responding(429, body, "Retry-After", "3600", "X-Request-Id", ""), found))
				failure := failureOf(t, get(t.Context(), client))
				assert.Equal(t, time.Hour, failure.RetryAfter)
				took, err := held(t.Context(), client)
				require.NoError(t, err)
				assert.InDelta(t, time.Minute, took, float64(time.Second))
			})
		})
	}
}

// A wrong value in one response must not stop a program for days.
func TestPauseLastsAtMostOneHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform := rejecting("999999999999")
		client := newTestClient(t, platform)
		require.ErrorIs(t, get(t.Context(), client), api.ErrRateLimited)
		time.Sleep(time.Hour)
		took, err := held(t.Context(), client)
		require.NoError(t, err)
		assert.Zero(t, took)
	})
}

// The longest pause counts. A later, shorter one does not end it.
func TestLaterRetryAfterDoesNotShortenPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w throttle
		assert.Zero(t, w.left())
		w.extend(30 * time.Second)
		w.extend(time.Second)
		assert.Equal(t, 30*time.Second, w.left())
		time.Sleep(20 * time.Second)
		w.extend(15 * time.Second)
		assert.Equal(t, 15*time.Second, w.left())
		time.Sleep(time.Minute)
		assert.Zero(t, w.left())
	})
}

// If another call gets a 429 while a call waits for the limiter, the call waits for the pause
// too.
func TestRetryAfterDuringLimiterWaitPausesCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform := rejecting("30")
		var asked atomic.Int32
		var ends observe.AttemptResult
		client := newTestClient(t, platform, func(c *Config) {
			c.Limiter = limiterFunc(func(ctx context.Context) error {
				if asked.Add(1) == 2 {
					time.Sleep(time.Second) // during this time the first call is rejected
				}
				return nil
			})
			c.Observers = []observe.Observer{{AttemptEnd: func(_ context.Context, r observe.AttemptResult) {
				if r.StatusCode == http.StatusOK {
					ends = r
				}
			}}}
		})
		require.NoError(t, client.config.Limiter.Wait(t.Context()))
		var group sync.WaitGroup
		group.Go(func() { assert.NoError(t, get(t.Context(), client)) })
		synctest.Wait() // waits for the limiter
		require.ErrorIs(t, get(t.Context(), client.withoutRetries()), api.ErrRateLimited)
		group.Wait()
		came := platform.times()
		require.Len(t, came, 2)
		assert.GreaterOrEqual(t, came[1], 30*time.Second)
		assert.GreaterOrEqual(t, ends.LimiterWait, 30*time.Second, "observers receive the whole wait")
	})
}

// pausingLimiter records the priorities of requests and the pauses.
type pausingLimiter struct {
	asked  []api.Priority
	pauses []time.Duration
	until  time.Time
}

func (l *pausingLimiter) Wait(ctx context.Context) error {
	l.asked = append(l.asked, apikit.PriorityOf(ctx))
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
		one, other := newTestClient(t, rejecting("7"), limited), newTestClient(t, rejecting(), limited)
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
	client := newTestClient(t, rejecting(), func(c *Config) { c.Limiter = limiter })
	ctx := api.ContextWithPriority(t.Context(), api.PriorityReconcile)
	require.NoError(t, get(ctx, client))
	require.NoError(t, get(apikit.WithPriority(ctx, api.PriorityCatalog), client))
	require.NoError(t, get(apikit.WithPriority(t.Context(), api.PriorityCatalog), client))
	require.NoError(t, create(api.ContextWithPriority(ctx, api.PriorityRefresh), client))
	assert.Equal(t, []api.Priority{api.PriorityReconcile, api.PriorityReconcile, api.PriorityCatalog, api.PriorityRefresh}, limiter.asked)
	assert.Empty(t, limiter.pauses)
}
