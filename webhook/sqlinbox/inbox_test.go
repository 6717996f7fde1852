package sqlinbox_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestStuckHandlerLosesClaim runs a handler that ignores the end of its context. Its event
// must go to another worker, and its own outcome must be lost.
func TestStuckHandlerLosesClaim(t *testing.T) {
	t.Parallel()
	stuck, gate := make(chan struct{}), make(chan struct{})
	c := config(t, func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			close(stuck)
			<-gate
		}
		return nil
	})
	c.Work.HandlerTimeout = 20 * time.Millisecond
	made := receivertest.Observe(&c.Work)
	inbox := open(t, newPath(t), c.WithClock(time.Now, 500*time.Millisecond))
	receivertest.Accept(t, inbox)
	<-stuck
	a := <-made
	for a.Result == webhook.ResultLost { // a busy machine may need more attempts
		a = <-made
	}
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Greater(t, a.Number, 1)
	close(gate)
	for a = <-made; a.Number > 1; a = <-made {
	}
	assert.Equal(t, webhook.ResultLost, a.Result)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats)
}

// TestLateOutcomeChangesNothing ends a handler after its claim, while the next attempt of its event
// runs. Only the outcome of the last claim may count.
func TestLateOutcomeChangesNothing(t *testing.T) {
	t.Parallel()
	clock, begun := &clock{}, make(chan struct{}, 3)
	late, others := make(chan struct{}), make(chan struct{})
	var first sync.Once
	c := config(t, func(context.Context, events.Event) (err error) {
		gate := others
		first.Do(func() { gate, err = late, webhook.Permanent(assert.AnError) })
		begun <- struct{}{}
		<-gate
		return err
	})
	c.Work.Workers = 3
	made := receivertest.Observe(&c.Work)
	inbox := open(t, newPath(t), c.WithClock(clock.now, time.Minute))
	receivertest.Accept(t, inbox)
	<-begun
	clock.advance(time.Hour)
	receivertest.Accept(t, inbox) // wakes the dispatcher, which claims both events
	<-begun
	<-begun
	close(late)
	ended := <-made
	close(others)
	require.Equal(t, webhook.ResultLost, ended.Result)
	allHandled(t, inbox, made, 2)
}

// allHandled requires that the next n attempts succeed and that the inbox is then empty.
func allHandled(t *testing.T, inbox *sqlinbox.Inbox, made <-chan webhook.Attempt, n int) {
	t.Helper()
	for range n {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats)
}

// TestLateOutcomeOfWaitingEventIsLost ends a handler after its claim, while its event waits for the
// next attempt. The number of the claim is still the same.
func TestLateOutcomeOfWaitingEventIsLost(t *testing.T) {
	t.Parallel()
	clock, begun := &clock{}, make(chan struct{}, 4)
	gates := make(chan chan struct{}, 4) // of the attempts in the order of their starts
	late, second, third, retry := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	for _, gate := range []chan struct{}{late, second, third, retry} {
		gates <- gate
	}
	c := config(t, func(context.Context, events.Event) error {
		gate := <-gates
		begun <- struct{}{}
		<-gate
		if gate == late {
			return webhook.Permanent(assert.AnError)
		}
		return nil
	})
	c.Work.Workers = 2
	made := receivertest.Observe(&c.Work)
	inbox := open(t, newPath(t), c.WithClock(clock.now, time.Minute))
	for range c.Work.Workers {
		receivertest.Accept(t, inbox)
		<-begun
	}
	receivertest.Accept(t, inbox) // has no worker, and is due before the end of the claims
	clock.advance(time.Hour)
	close(second) // the worker ends the first claim and begins the third event
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	<-begun
	close(late)
	ended := <-made
	close(third)
	close(retry)
	require.Equal(t, webhook.ResultLost, ended.Result)
	allHandled(t, inbox, made, 2)
}

func TestPurgeKeepsKeysForRetention(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	c := config(t, receivertest.Succeed)
	c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StalePolicyReport
	made := receivertest.Observe(&c.Work)
	path := newPath(t)
	inbox := open(t, path, c.WithClock(clock.now, time.Minute))
	all := make([]webhook.Delivery, 520) // more than one purge transaction
	var group sync.WaitGroup
	for n := range all {
		group.Go(func() { all[n] = receivertest.Accept(t, inbox) })
	}
	group.Wait()
	for range all {
		<-made
	}
	isKnown := func(want bool) {
		t.Helper()
		require.NoError(t, inbox.Purge())
		for _, d := range all[:2] {
			receipt, err := inbox.Accept(t.Context(), d)
			require.NoError(t, err)
			assert.Equal(t, want, receipt.Duplicate)
		}
	}
	clock.advance(40 * 24 * time.Hour)
	isKnown(true) // the clock is ahead: no event is as new
	clock.offset.Store(0)
	clock.advance(inboxkit.Retention - time.Minute)
	objects := map[string]int{} // of the events that stay. Two may be of one patient
	stays := func(d webhook.Delivery) {
		event, err := d.Event()
		require.NoError(t, err)
		objects[string(webhook.ByObject(d, event))] = 1
	}
	accept := func(created time.Time) {
		d := receivertest.NewDelivery()
		d.CreatedAt = created
		_, err := inbox.Accept(t.Context(), d)
		require.NoError(t, err)
		<-made
		stays(d)
	}
	accept(clock.now().Add(24 * time.Hour)) // the clock of the platform is ahead
	isKnown(true)
	clock.advance(2 * time.Minute)
	accept(time.Now())
	isKnown(false)
	<-made
	<-made
	stays(all[0])
	stays(all[1])
	db := database(t, path)
	assert.Len(t, countTexts(t, db, "SELECT key FROM dispensary_inbox"), 4)
	assert.Equal(t, objects, countTexts(t, db, "SELECT object FROM dispensary_inbox_newest"))
}

// TestOutcomeWaitsForLockedDatabase locks the file for writing while a handler returns, for
// longer than its claim. The outcome must be recorded then, even if another event is claimed
// before.
func TestOutcomeWaitsForLockedDatabase(t *testing.T) {
	t.Parallel()
	path, clock := newPath(t), &clock{}
	other := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), other))
	lock, err := other.Conn(t.Context())
	require.NoError(t, err)
	locked := make(chan struct{}, 2)
	lockOnce := sync.OnceValue(func() error {
		_, err := lock.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		return err
	})
	c := config(t, func(context.Context, events.Event) error {
		err := lockOnce()
		locked <- struct{}{}
		return err
	})
	made := receivertest.Observe(&c.Work)
	inbox, err := sqlinbox.New(database(t, path), c.WithClock(clock.now, time.Minute))
	require.NoError(t, err)
	closed(t, inbox)
	inbox.Pragma(t, "busy_timeout = 1")
	receivertest.Accept(t, inbox)
	<-locked
	d := receivertest.NewDelivery()
	_, err = inbox.Accept(t.Context(), d)
	require.ErrorContains(t, err, "locked")
	assert.NotContains(t, err.Error(), receivertest.Canary)
	select {
	case a := <-made:
		require.Fail(t, "recorded while the database was locked", "%s %v", a.Result, a.Err)
	default:
	}
	clock.advance(time.Hour)
	_, err = lock.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	receivertest.Accept(t, inbox)
	for range 2 {
		a := <-made
		assert.Equal(t, webhook.ResultHandled, a.Result)
		assert.Equal(t, 1, a.Number)
	}
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats, "a failed accept stores nothing")
}

// TestRetryIsNeverEarly compares the stored time, in microseconds, with a clock in nanoseconds.
func TestRetryIsNeverEarly(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 9, 0, 0, 999, time.UTC)
	c := config(t, func(context.Context, events.Event) error { return assert.AnError })
	made := receivertest.Observe(&c.Work)
	path := newPath(t)
	inbox := open(t, path, c.WithClock(func() time.Time { return now }, time.Minute))
	receivertest.Accept(t, inbox)
	due := now.Add((<-made).RetryIn)
	for text := range countTexts(t, database(t, path), "SELECT due_at FROM dispensary_inbox") {
		stored, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		assert.False(t, time.UnixMicro(stored).Before(due))
	}
}

// TestClockSetBackDelaysNoEvent accepts events, and fails one, with a clock one day ahead. It
// then sets the clock back. No event may wait longer than by the current clock.
func TestClockSetBackDelaysNoEvent(t *testing.T) {
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

// TestClockSetBackDelaysNoRetry fails an event with a clock that is ahead.
func TestClockSetBackDelaysNoRetry(t *testing.T) {
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
	receivertest.Accept(t, inbox) // wakes the inbox, which otherwise wakes once a minute
	results := map[webhook.Result]int{}
	for range 3 {
		results[(<-made).Result]++
	}
	assert.Equal(t, map[webhook.Result]int{webhook.ResultFailed: 1, webhook.ResultHandled: 2}, results)
}

// TestOutcomeAndClaimShareTransaction requires that a handler waits for one transaction
// between two events.
func TestOutcomeAndClaimShareTransaction(t *testing.T) {
	t.Parallel()
	const events = 50
	gate := make(chan struct{})
	inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) {
		c.Work.Workers, c.Work.Order = 1, webhook.ByObject
		return sqlinbox.Open(newPath(t), c)
	})
	for range events {
		receivertest.Accept(t, inbox)
	}
	inbox.AwaitClaims(t, 1)
	count := inbox.CountTransactions(t)
	close(gate)
	for range events {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	assert.Less(t, count(), events+events/2)
}

// TestCloseClosesConnections requires that SQLite keeps no file open after Close. Closing the
// last connection removes the log.
func TestCloseClosesConnections(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	inbox, err := sqlinbox.Open(path, config(t, receivertest.Succeed))
	require.NoError(t, err)
	receivertest.Accept(t, inbox)
	assert.FileExists(t, path+"-wal")
	require.NoError(t, inbox.Close(context.Background()))
	assert.NoFileExists(t, path+"-wal")
	assert.NoFileExists(t, path+"-shm")
}

// TestCanceledCheckpointClaimIsReleased makes a claim for a caller that no longer waits. It
// must not block the checkpoint for others.
func TestCanceledCheckpointClaimIsReleased(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	_, err := inbox.ClaimCheckpoint(t.Context(), "name", "before", time.Hour)
	require.NoError(t, err)
	require.NoError(t, inbox.SaveCheckpoint(t.Context(), "name", "before", []byte("state"), time.Hour))
	require.NoError(t, inbox.ReleaseCheckpoint(t.Context(), "name", "before"))

	queued, end := inbox.Batch(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		state, err := inbox.ClaimCheckpoint(ctx, "name", "left", time.Hour)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Nil(t, state)
	}()
	queued(1)
	cancel()
	<-left
	end() // the writer claims for the canceled caller

	state, err := inbox.ClaimCheckpoint(t.Context(), "name", "next", time.Hour)
	require.NoError(t, err)
	assert.Equal(t, "state", string(state))
}

// TestCheckpointClaimRacesWithCancel is for the race detector: a caller that cancels during
// its claim must not read the value that the writer writes.
func TestCheckpointClaimRacesWithCancel(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	for range 10 {
		queued, end := inbox.Batch(t)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			if _, err := inbox.ClaimCheckpoint(ctx, "name", "holder", time.Hour); err != nil {
				assert.ErrorIs(t, err, context.Canceled)
			}
		}()
		queued(1)
		cancel()
		end()
		<-left
	}
}

// TestCloseAbandonsStuckTransaction closes an inbox while the program's part of a transaction
// does not return.
func TestCloseAbandonsStuckTransaction(t *testing.T) {
	t.Parallel()
	begun, gate := make(chan struct{}), make(chan struct{})
	c := config(t, func(ctx context.Context, _ events.Event) error {
		return sqlinbox.InTransaction(ctx, func(context.Context, sqlinbox.Tx) error {
			close(begun)
			<-gate
			return nil
		})
	})
	made := receivertest.Observe(&c.Work)
	path := newPath(t)
	inbox, err := sqlinbox.Open(path, c.WithPatience(time.Millisecond))
	require.NoError(t, err)
	d := receivertest.Accept(t, inbox)
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		require.ErrorIs(t, inbox.Close(ctx), context.Canceled)
	}
	_, err = inbox.Accept(t.Context(), d)
	require.ErrorIs(t, err, webhook.ErrInboxClosed)
	_, err = sqlinbox.Open(path, c)
	require.ErrorIs(t, err, sqlinbox.ErrInUse, "the transaction may still write")

	close(gate)
	require.NoError(t, inbox.Close(t.Context()))
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	inbox = open(t, path, c)
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats, "the event was handled")
}

func TestDoneEventsKeepNoFailures(t *testing.T) {
	t.Parallel()
	c := config(t, func(ctx context.Context, _ events.Event) error {
		if handling := webhook.HandlingFrom(ctx); handling.Attempt == 1 || handling.Key.EventID == "discarded" {
			return assert.AnError
		}
		return nil
	})
	c.Work.Retry = webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond}
	made := receivertest.Observe(&c.Work)
	path := newPath(t)
	inbox := open(t, path, c)
	discarded := receivertest.NewDelivery()
	discarded.Key.EventID = "discarded"
	receivertest.Accept(t, inbox)
	_, err := inbox.Accept(t.Context(), discarded)
	require.NoError(t, err)
	for range 4 {
		<-made
	}
	rows := "SELECT state || coalesce(length(failures) > 100, '') FROM dispensary_inbox"
	assert.Equal(t, map[string]int{"6": 1, "51": 1}, countTexts(t, database(t, path), rows))
	n, err := inbox.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{discarded.Key}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	assert.Equal(t, map[string]int{"6": 2}, countTexts(t, database(t, path), rows))
}
