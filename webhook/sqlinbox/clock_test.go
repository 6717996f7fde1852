package sqlinbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestClockThatWasAheadDelaysNothing accepts events, and has one fail, by a clock
// that is ahead by a day, which is set back then: none waits for longer than it
// has to by the clock as it is now.
func TestClockThatWasAheadDelaysNothing(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &clock{}
			clock.advance(24 * time.Hour)
			begun, gate := make(chan struct{}, 3), make(chan struct{})
			c := config(t, func(ctx context.Context, _ events.Event) error {
				if clock.offset.Load() == 0 {
					return nil
				}
				begun <- struct{}{}
				_ = receivertest.Until(ctx, gate)
				return assert.AnError
			})
			c.Work.Workers = 1
			c.Work.Retry = webhook.RetryPolicy{BackOff: time.Millisecond, MaxBackOff: time.Millisecond}
			made := receivertest.Observe(&c.Work)
			path := newPath(t)
			c = c.WithClock(clock.now, time.Minute)
			inbox, err := sqlinbox.Open(path, c)
			require.NoError(t, err)
			for range 3 {
				receivertest.Accept(t, inbox)
			}
			<-begun
			if restart {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.NoError(t, inbox.Close(ctx))
				assert.Equal(t, webhook.ResultReturned, (<-made).Result)
			}
			clock.offset.Store(0)
			if restart {
				inbox, err = sqlinbox.Open(path, c)
				require.NoError(t, err)
			} else {
				close(gate)
				assert.Equal(t, webhook.ResultFailed, (<-made).Result)
			}
			closed(t, inbox)
			for range 3 {
				assert.Equal(t, webhook.ResultHandled, (<-made).Result)
			}
		})
	}
}

// TestClockThatIsAheadDelaysNoRetry has an event fail by a clock that is ahead.
func TestClockThatIsAheadDelaysNoRetry(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	clock.advance(24 * time.Hour)
	c := config(t, func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			return assert.AnError
		}
		return nil
	})
	c.Work.Retry = webhook.RetryPolicy{BackOff: 10 * time.Millisecond, MaxBackOff: 10 * time.Millisecond}
	c.Work.Workers = 1
	made := receivertest.Observe(&c.Work)
	observe := c.Work.Observer.AttemptEnd
	c.Work.Observer.AttemptEnd = func(ctx context.Context, a webhook.Attempt) {
		clock.offset.Store(0)
		observe(ctx, a)
	}
	inbox := open(t, newPath(t), c.WithClock(clock.now, time.Minute))
	receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultFailed, (<-made).Result)
	receivertest.Accept(t, inbox) // has the inbox look, which it does every minute at least
	results := map[webhook.Result]int{}
	for range 3 {
		results[(<-made).Result]++
	}
	assert.Equal(t, map[webhook.Result]int{webhook.ResultFailed: 1, webhook.ResultHandled: 2}, results)
}
