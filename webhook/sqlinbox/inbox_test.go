package sqlinbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
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
	c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StaleReport
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
	clock.advance(engine.DefaultRetention - time.Minute)
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

// TestOnlyClaimsAreLazy holds that what is acknowledged is synced, whatever came
// before it.
func TestOnlyClaimsAreLazy(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	assert.Equal(t, []int{1, 2, 2, 1, 1, 2}, inbox.Synchronous(t))
}
