package sqlinbox_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
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

// clock is a time that a test moves.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// observed returns a channel with every attempt, and work that fills it.
func observed(w webhook.Work) (webhook.Work, <-chan webhook.Attempt) {
	made := make(chan webhook.Attempt, 1000)
	w.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { made <- a }
	return w, made
}

// accept gives a new event to an inbox.
func accept(t *testing.T, inbox webhook.Inbox) webhook.Delivery {
	t.Helper()
	d := receivertest.NewDelivery()
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	require.False(t, receipt.Duplicate)
	return d
}

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
	work, made := observed(c.Work)
	c.Work = work
	inbox, err := sqlinbox.Open(filepath.Join(t.TempDir(), "inbox.db"), c.WithClock(time.Now, 500*time.Millisecond))
	require.NoError(t, err)
	closed(t, inbox)
	accept(t, inbox)
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
	c := config(t, func(_ context.Context, e events.Event) error { return nil })
	c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StaleReport
	work, made := observed(c.Work)
	c.Work = work
	path := filepath.Join(t.TempDir(), "inbox.db")
	inbox, err := sqlinbox.Open(path, c.WithClock(clock.now, time.Minute))
	require.NoError(t, err)
	closed(t, inbox)
	all := make([]webhook.Delivery, 520) // more than are deleted at a time
	var group sync.WaitGroup
	for n := range all {
		group.Go(func() { all[n] = accept(t, inbox) })
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
	path := filepath.Join(t.TempDir(), "inbox.db")
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
	work, made := observed(c.Work)
	c.Work = work
	inbox, err := sqlinbox.New(database(t, path), c)
	require.NoError(t, err)
	closed(t, inbox)
	inbox.BusyTimeout(t, 1)
	accept(t, inbox)
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
	inbox, err := sqlinbox.Open(filepath.Join(t.TempDir(), "inbox.db"), config(t, receivertest.Succeed))
	require.NoError(t, err)
	closed(t, inbox)
	assert.Equal(t, []int{1, 2, 2, 1, 1, 2}, inbox.Synchronous(t))
}
