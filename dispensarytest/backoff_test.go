package dispensarytest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// backoff runs the check.
func backoff(t *testing.T, b *browser) *verdict {
	v := &verdict{TB: t}
	b.fake.Journal.CheckBackoffHonored(v)
	return v
}

// A request that was sent before the response can arrive long after the response to another
// one. It is not a repetition.
func TestRequestInFlightPassesBackoffCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(100 * time.Millisecond)
		b.get("/clinic").ok(200)
		assert.NotEmpty(t, backoff(t, b).failures, "no repetition in time")
		time.Sleep(2 * time.Second)
		b.get("/clinic").ok(200)
		b.fake.Journal.CheckBackoffHonored(t)
	})
}

// One timely repetition does not excuse two early ones.
func TestBackoffCheckFindsImpatientClient(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]time.Duration{
		"at once":             {0},
		"after half the wait": {time.Second, time.Second},
		"own backoff":         {200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, WithInMemory())
				b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: len(waits), RetryAfter: 2 * time.Second})
				b.get("/clinic")
				for _, d := range waits {
					time.Sleep(d)
					b.get("/clinic")
				}
				assert.NotEmpty(t, backoff(t, b).failures)
			})
		})
	}
}

// The wait begins with the response, even if the platform was slow.
func TestBackoffCheckMeasuresFromResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.EffectLatency, Delay: 5 * time.Second, Times: 1})
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(time.Second)
		b.get("/clinic").ok(200)
		backoff(t, b).says(t, "came after 1s, 1s too early")
	})
}
