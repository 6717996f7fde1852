package dispensarytest

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// together lets callers make the same call at once and returns their errors.
func together(callers int, call func() error) []error {
	failures := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { failures[i] = call() })
	}
	wg.Wait()
	return failures
}

// backoff runs the check and returns its failures.
func backoff(t *testing.T, fake *Server) []string {
	v := &verdict{TB: t}
	fake.Journal().CheckBackoffHonored(v)
	return v.failures
}

func TestOverlappingCallsPassBackoffCheck(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{"in memory": {WithInMemory()}, "sockets": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := New(t, options...)
			client := fake.Client(model.User{})
			fake.Fault(model.Fault{Operation: "clinic.get", Effect: model.TooManyRequests, RetryAfter: time.Second, Times: 3})
			for _, err := range together(20, func() error { _, err := client.Clinic.Get(t.Context()); return err }) {
				require.NoError(t, err)
			}
			assert.Equal(t, 23, fake.Journal().Len())
			fake.Journal().CheckBackoffHonored(t)
		})
	}
}

// A request that was sent before the response can arrive long after another one had
// its response, and is no repetition.
func TestRequestInFlightPassesBackoffCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.TooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(100 * time.Millisecond)
		b.get("/clinic").ok(200)
		assert.NotEmpty(t, backoff(t, b.fake), "no repetition in time")
		time.Sleep(2 * time.Second)
		b.get("/clinic").ok(200)
		b.fake.Journal().CheckBackoffHonored(t)
	})
}

// One repetition in time does not excuse two early ones.
func TestBackoffCheckFindsImpatientClient(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]time.Duration{
		"at once":             {0},
		"after 10 ms":         {10 * time.Millisecond},
		"after half the wait": {time.Second, time.Second},
		"own backoff":         {200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond},
		"slightly early":      {1900 * time.Millisecond, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, WithInMemory())
				b.fake.Fault(model.Fault{Effect: model.TooManyRequests, Times: len(waits), RetryAfter: 2 * time.Second})
				b.get("/clinic")
				for _, d := range waits {
					time.Sleep(d)
					b.get("/clinic")
				}
				assert.NotEmpty(t, backoff(t, b.fake))
			})
		})
	}
}

func TestBackoffCheckFindsImpatientCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.TooManyRequests, Times: 3, RetryAfter: time.Second})
		together(20, func() error {
			for b.get("/clinic").status == http.StatusTooManyRequests { // at once
			}
			return nil
		})
		assert.NotEmpty(t, backoff(t, b.fake))
	})
}

// The wait begins with the response, also if the platform took its time.
func TestBackoffCheckMeasuresFromResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.Latency, Delay: 5 * time.Second, Times: 1})
		b.fake.Fault(model.Fault{Effect: model.TooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(time.Second)
		b.get("/clinic").ok(200)
		failures := backoff(t, b.fake)
		require.Len(t, failures, 1)
		assert.Contains(t, failures[0], "came after 1s, 1s too early")
	})
}

// A hold of 90 s passes at once in a bubble: the client's timers, the platform's clock
// and the transport in memory share its time.
func TestHoldEndsInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := New(t, WithInMemory())
		client := fake.Client(model.User{})
		fake.Fault(model.Fault{Effect: model.TooManyRequests, RetryAfter: 90 * time.Second, Times: 1})
		began := time.Now()

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for range 2 {
			_, err := client.Clinic.Get(ctx)
			require.ErrorIs(t, err, dispensary.ErrRateLimited)
		}
		assert.Equal(t, 1, fake.Journal().Len(), "the second call is not sent")
		assert.Zero(t, time.Since(began), "no call waits beyond its context")

		time.Sleep(90 * time.Second)
		_, err := client.Clinic.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 90*time.Second, time.Since(began))
		fake.Journal().CheckBackoffHonored(t)
	})
}
