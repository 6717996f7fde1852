package sqlinbox_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestStuckHandlerLosesItsEvent holds that an event whose handler ignores its
// context for long is given to another one, and that the first comes too late.
func TestStuckHandlerLosesItsEvent(t *testing.T) {
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
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, 2, a.Number)
	close(gate)
	a = <-made
	assert.Equal(t, webhook.ResultLost, a.Result)
	assert.Equal(t, 1, a.Number)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats)
}

func TestKeysAreKeptForRetention(t *testing.T) {
	t.Parallel()
	clock := &clock{}
	c := config(t, receivertest.Succeed)
	c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StalePolicyReport
	made := receivertest.Observe(&c.Work)
	path := newPath(t)
	inbox := open(t, path, c.WithClock(clock.now, time.Minute))
	all := make([]webhook.Delivery, 520) // more than are deleted at a time
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
	clock.advance(inboxkit.Retention - time.Minute)
	isKnown(true)
	clock.advance(2 * time.Minute)
	isKnown(false)
	<-made
	<-made
	db := database(t, path)
	assert.Len(t, countTexts(t, db, "SELECT key FROM dispensary_inbox"), 2)
	assert.Len(t, countTexts(t, db, "SELECT object FROM dispensary_inbox_newest"), 2)
}

// TestOutcomeIsNotedOnceTheDatabaseLetsGo has somebody else hold the write lock
// of the file while a handler ends.
func TestOutcomeIsNotedOnceTheDatabaseLetsGo(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	other := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), other))
	lock, err := other.Conn(t.Context())
	require.NoError(t, err)
	locked := make(chan struct{}, 1)
	c := config(t, func(context.Context, events.Event) error {
		_, err := lock.ExecContext(context.Background(), "BEGIN IMMEDIATE")
		locked <- struct{}{}
		return err
	})
	made := receivertest.Observe(&c.Work)
	inbox, err := sqlinbox.New(database(t, path), c)
	require.NoError(t, err)
	closed(t, inbox)
	inbox.BusyTimeout(t, 1)
	receivertest.Accept(t, inbox)
	<-locked
	d := receivertest.NewDelivery()
	_, err = inbox.Accept(t.Context(), d)
	require.ErrorContains(t, err, "locked")
	assert.NotContains(t, err.Error(), receivertest.Canary)
	select {
	case a := <-made:
		require.Fail(t, "noted while the database was locked", "%s %v", a.Result, a.Err)
	default:
	}
	_, err = lock.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	a := <-made
	assert.Equal(t, webhook.ResultHandled, a.Result)
	assert.Equal(t, 1, a.Number)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats, "what was not accepted is not half there")
}

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

// TestAcceptsAndHandlersShareTheWriter looks at what becomes one transaction while
// many events come in.
func TestAcceptsAndHandlersShareTheWriter(t *testing.T) {
	t.Parallel()
	const all = math.MaxInt
	for name, c := range map[string]struct {
		outcomes, expected int
		handling, waited   time.Duration
		limit              int
		waits              bool
	}{
		"no handlers":            {limit: all},
		"quick handlers":         {outcomes: 4, limit: 4},
		"one is still to come":   {outcomes: 3, expected: 1, handling: time.Microsecond, limit: 3, waits: true},
		"slow handlers":          {expected: 4, handling: time.Second, limit: all},
		"slow ones that are due": {outcomes: 4, expected: 4, handling: time.Second, limit: 4},
		"accepts wait for long":  {outcomes: 4, waited: time.Second, limit: all},
	} {
		limit, waits := sqlinbox.AcceptLimit(c.outcomes, c.expected, c.handling, c.waited)
		assert.Equal(t, c.limit, limit, name)
		assert.Equal(t, c.waits, waits, name)
	}
}

// TestOutcomeAndNextEventShareATransaction holds that a handler waits for one
// transaction between two events.
func TestOutcomeAndNextEventShareATransaction(t *testing.T) {
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

// TestCloseEndsConnections holds that nothing of SQLite stays open in a process that has
// closed its inbox: the last connection takes the log along.
func TestCloseEndsConnections(t *testing.T) {
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

// TestClaimOfCheckpointWhoseCallerHasLeft: a claim whose caller no longer waits does not
// keep others from the checkpoint.
func TestClaimOfCheckpointWhoseCallerHasLeft(t *testing.T) {
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
	end() // the writer claims for the caller that has left

	state, err := inbox.ClaimCheckpoint(t.Context(), "name", "next", time.Hour)
	require.NoError(t, err)
	assert.Equal(t, "state", string(state))
}

// TestClaimOfCheckpointWhoseCallerLeaves is for the race detector: a caller that leaves while the
// writer claims for it does not read what the writer writes.
func TestClaimOfCheckpointWhoseCallerLeaves(t *testing.T) {
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

// TestCloseWaitsForNoTransactionThatHangs closes an inbox while the program's own
// part of a transaction does not end.
func TestCloseWaitsForNoTransactionThatHangs(t *testing.T) {
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
	require.ErrorIs(t, err, sqlinbox.ErrInUse, "it may yet write")

	close(gate)
	require.NoError(t, inbox.Close(t.Context()))
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	inbox = open(t, path, c)
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	assert.True(t, receipt.Duplicate)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats, "it was handled")
}
