package memoryinbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/enginetest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

func TestInboxKeepsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, func(*testing.T) enginetest.Storage {
		return enginetest.Storage{Ordered: true, Open: func(work webhook.Work) (engine.Engine, error) {
			return memoryinbox.New(memoryinbox.Config{Work: work})
		}}
	})
}

// newInbox makes an inbox, and returns every attempt that it makes; change may be nil.
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

func TestClosedInboxKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, _ := newInbox(t, fail, nil)
		d := receivertest.Accept(t, inbox)
		require.ErrorIs(t, inbox.Close(t.Context()), memoryinbox.ErrUnfinished)
		require.EqualError(t, inbox.Close(t.Context()), "memoryinbox: closed with events that are not handled: 1")
		left, err := inbox.Open(t.Context(), d.Key)
		require.NoError(t, err)
		assert.Equal(t, string(d.Body), string(left.Body))
		n, err := inbox.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{d.Key}})
		require.NoError(t, err, "it works on a closed inbox too")
		assert.Equal(t, 1, n)
		require.NoError(t, inbox.Close(t.Context()))
	})
}

func TestInboxRefusesWhatItHasNoRoomFor(t *testing.T) {
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
		assert.True(t, receipt.Duplicate, "duplicates need no room")
		close(gate)
		synctest.Wait()
		receivertest.Accept(t, inbox)
		require.NoError(t, inbox.Close(t.Context()))
		assert.Len(t, made, 4)
	})
}

func TestInboxForgetsTheOldestKeys(t *testing.T) {
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

// Close waits for what is held, retries and their waits included.
func TestInboxCloses(t *testing.T) {
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

// An event that dies again is beyond the end of its replay, also where time stands still.
func TestReplayIsMadeOnceWhileTimeStandsStill(t *testing.T) {
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

// When time is up, Close ends the handlers and reports what is left.
func TestInboxClosesInTime(t *testing.T) {
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
		require.EqualError(t, inbox.Close(ctx), "memoryinbox: closed with events that are not handled: 2")
		assert.Equal(t, 10*time.Second, time.Since(start))
		time.Sleep(time.Hour)
		require.Len(t, made, 2, "nothing is tried any more")
		assert.Equal(t, webhook.ResultFailed, (<-made).Result)
		assert.Equal(t, webhook.ResultReturned, (<-made).Result, "the handler's context has ended")
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []memoryinbox.Config{
		{}, {Work: webhook.Work{Handle: fail, Workers: -1}}, {Work: webhook.Work{Handle: fail}, MaxBytes: -1},
		{Work: webhook.Work{Handle: fail, Retry: webhook.RetryPolicy{BackOff: -1}}},
	} {
		_, err := memoryinbox.New(c)
		require.Error(t, err)
	}
}

// Close returns also after a call that did not wait, and reports the same.
func TestInboxThatGaveUpIsClosedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inbox, attempts := newInbox(t, fail, nil)
		receivertest.Accept(t, inbox)
		<-attempts
		ended, end := context.WithCancel(t.Context())
		end()
		require.ErrorIs(t, inbox.Close(ended), memoryinbox.ErrUnfinished)
		require.ErrorIs(t, inbox.Close(t.Context()), memoryinbox.ErrUnfinished, "what waits for its next attempt has no worker any more")
	})
}

// BenchmarkDead measures an operations page with dead letters.
func BenchmarkDead(b *testing.B) {
	enginetest.BenchmarkDead(b, func(b *testing.B, work webhook.Work) engine.Engine {
		inbox, err := memoryinbox.New(memoryinbox.Config{Work: work})
		require.NoError(b, err)
		return inbox
	})
}
