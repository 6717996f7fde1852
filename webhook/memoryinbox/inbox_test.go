package memoryinbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/enginetest"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

func TestInboxConforms(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(*testing.T) enginetest.Storage {
		return enginetest.Storage{Ordered: true, Open: func(work webhook.Work) (engine.Engine, error) {
			return memoryinbox.New(memoryinbox.Config{Work: work})
		}}
	})
}

// newInbox returns an inbox and a channel of its attempts. If change is not nil, newInbox calls it
// with the configuration first.
func newInbox(t *testing.T, handle webhook.HandlerFunc, change func(*memoryinbox.Config)) (*memoryinbox.Inbox, <-chan webhook.Attempt) {
	t.Helper()
	c := memoryinbox.Config{Work: webhook.Work{Handle: handle}}
	made := receivertest.Observe(&c.Work)
	if change != nil {
		change(&c)
	}
	inbox, err := memoryinbox.New(c)
	require.NoError(t, err)
	return inbox, made
}

func fail(context.Context, events.Event) error { return assert.AnError }

func TestInboxWaitsForStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := make(chan struct{})
		inbox, made := newInbox(t, fail, func(c *memoryinbox.Config) { c.Work.Start, c.Work.Retry.MaxAttempts = start, 1 })
		receivertest.Accept(t, inbox)
		synctest.Wait()
		assert.Empty(t, made)
		close(start)
		assert.Equal(t, webhook.ResultDead, (<-made).Result)
		require.ErrorIs(t, inbox.Close(t.Context()), memoryinbox.ErrUnfinished)
	})
}

func TestClosedInboxKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, _ := newInbox(t, fail, nil)
		d := receivertest.Accept(t, inbox)
		require.ErrorIs(t, inbox.Close(t.Context()), memoryinbox.ErrUnfinished)
		require.EqualError(t, inbox.Close(t.Context()), "memoryinbox: closed with unhandled events: 1")
		left, err := inbox.Open(t.Context(), d.Key)
		require.NoError(t, err)
		assert.Equal(t, string(d.Body), string(left.Body))
		n, err := inbox.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{d.Key}})
		require.NoError(t, err, "Discard must work on a closed inbox")
		assert.Equal(t, 1, n)
		require.NoError(t, inbox.Close(t.Context()))
	})
}

func TestFullInboxRejectsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		inbox, made := newInbox(t, func(ctx context.Context, _ events.Event) error { return receivertest.Until(ctx, gate) }, func(c *memoryinbox.Config) {
			c.Work.Workers, c.MaxEvents, c.MaxBytes = 1, 3, 10_000
		})
		large := receivertest.NewDelivery()
		large.Body = make([]byte, 20_000)
		_, err := inbox.Accept(t.Context(), large)
		require.ErrorIs(t, err, webhook.ErrInboxFull)
		first := receivertest.Accept(t, inbox)
		receivertest.Accept(t, inbox)
		receivertest.Accept(t, inbox)
		_, err = inbox.Accept(t.Context(), receivertest.NewDelivery())
		require.ErrorIs(t, err, webhook.ErrInboxFull)
		receipt, err := inbox.Accept(t.Context(), first)
		require.NoError(t, err)
		assert.True(t, receipt.Duplicate, "a full inbox must recognize duplicates")
		close(gate)
		synctest.Wait()
		receivertest.Accept(t, inbox)
		require.NoError(t, inbox.Close(t.Context()))
		assert.Len(t, made, 4)
	})
}

func TestInboxDropsOldestKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, _ := newInbox(t, receivertest.Succeed, func(c *memoryinbox.Config) { c.MaxKeys = 2 })
		events := map[string]webhook.Delivery{"a": receivertest.NewDelivery(), "b": receivertest.NewDelivery(), "c": receivertest.NewDelivery()}
		for _, c := range []struct {
			id        string
			duplicate bool
		}{{"a", false}, {"b", false}, {"a", true}, {"c", false}, {"a", false}, {"c", true}, {"b", false}} {
			receipt, err := inbox.Accept(t.Context(), events[c.id])
			require.NoError(t, err)
			assert.Equal(t, c.duplicate, receipt.Duplicate, c.id)
			synctest.Wait()
		}
		require.NoError(t, inbox.Close(t.Context()))
	})
}

// Close waits for stored events, including retries and the waits before them.
func TestCloseWaitsForRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, made := newInbox(t, func(ctx context.Context, _ events.Event) error {
			time.Sleep(time.Second)
			if webhook.HandlingFrom(ctx).Attempt < 4 {
				return assert.AnError
			}
			return nil
		}, nil)
		receivertest.Accept(t, inbox)
		require.NoError(t, inbox.Close(t.Context()))
		assert.Len(t, made, 4)
	})
}

// If a replayed event dies again, its new position must be beyond Until, even if the clock stands
// still.
func TestReplayRunsOnceOnStoppedClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, made := newInbox(t, func(context.Context, events.Event) error { return webhook.Permanent(assert.AnError) }, nil)
		receivertest.Accept(t, inbox)
		<-made
		counts, err := inbox.Count(t.Context(), engine.Filter{}, 0)
		require.NoError(t, err)
		for _, want := range []int{1, 0} {
			n, err := inbox.Replay(t.Context(), engine.Filter{Until: counts.Until})
			require.NoError(t, err)
			assert.Equal(t, want, n)
			synctest.Wait()
		}
		_ = inbox.Close(t.Context())
	})
}

// When its context ends, Close cancels the handlers and reports the remaining events.
func TestCloseHonorsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, made := newInbox(t, func(ctx context.Context, e events.Event) error {
			if webhook.HandlingFrom(ctx).Key.IntegrationID == "in_1" {
				return assert.AnError
			}
			return receivertest.Hold(ctx, e)
		}, func(c *memoryinbox.Config) {
			c.Work.Workers, c.Work.HandlerTimeout, c.Work.Retry.BackOff = 2, time.Hour, time.Minute
		})
		receivertest.Accept(t, inbox)
		time.Sleep(time.Second)
		hangs := receivertest.NewDelivery()
		hangs.Key.IntegrationID = "in_2"
		_, err := inbox.Accept(t.Context(), hangs)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		require.EqualError(t, inbox.Close(ctx), "memoryinbox: closed with unhandled events: 2")
		assert.Equal(t, 10*time.Second, time.Since(start))
		time.Sleep(time.Hour)
		require.Len(t, made, 2, "no attempt may start after Close")
		assert.Equal(t, webhook.ResultFailed, (<-made).Result)
		assert.Equal(t, webhook.ResultReturned, (<-made).Result, "Close must cancel the context of the handler")
	})
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []memoryinbox.Config{
		{}, {Work: webhook.Work{Handle: fail, Workers: -1}}, {Work: webhook.Work{Handle: fail}, MaxBytes: -1},
		{Work: webhook.Work{Handle: fail, Retry: webhook.RetryPolicy{BackOff: -1}}},
	} {
		_, err := memoryinbox.New(c)
		require.Error(t, err)
	}
}

// A second Close must return too, with the same error, even if the first one did not wait.
func TestCloseRepeatsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, attempts := newInbox(t, fail, nil)
		receivertest.Accept(t, inbox)
		<-attempts
		ended, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, inbox.Close(ended), memoryinbox.ErrUnfinished)
		require.ErrorIs(t, inbox.Close(t.Context()), memoryinbox.ErrUnfinished, "no worker is left for the retry")
	})
}

// BenchmarkDead measures the queries of an operations page with dead letters.
func BenchmarkDead(b *testing.B) {
	enginetest.BenchmarkDead(b, func(b *testing.B, work webhook.Work) engine.Engine {
		inbox, err := memoryinbox.New(memoryinbox.Config{Work: work})
		require.NoError(b, err)
		return inbox
	})
}
