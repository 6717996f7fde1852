package sqlinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// large returns an event with a body of some KiB.
func large(kib int) webhook.Delivery {
	d := receivertest.NewDelivery()
	d.Body = append(d.Body, bytes.Repeat([]byte(" "), kib<<10)...)
	return d
}

// fillUp accepts events without handling them until there is no room, and lets their handlers
// return before there is room again. The same inbox or the next one must then have handled
// every acknowledged event once, and must accept new ones.
func fillUp(t *testing.T, path string, restart bool, open func(sqlinbox.Config) (*sqlinbox.Inbox, error), makeRoom func(*sqlinbox.Inbox)) {
	t.Helper()
	var log logtest.Buffer
	var returned atomic.Int64
	gate := make(chan struct{})
	c := config(t, func(ctx context.Context, _ events.Event) error {
		err := receivertest.Until(ctx, gate)
		returned.Add(1)
		return err
	})
	c.Work.Logger = logtest.NewLogger(&log)
	made := receivertest.Observe(&c.Work)
	inbox, err := open(c)
	require.NoError(t, err)
	db := database(t, path)
	require.NoError(t, db.PingContext(t.Context())) // keeps the log after a crash
	acknowledged := map[webhook.Key]bool{}
	for d := large(8); ; d = large(8) {
		if _, err = inbox.Accept(t.Context(), d); err != nil {
			break
		}
		acknowledged[d.Key] = true
		require.Less(t, len(acknowledged), 100_000)
	}
	require.ErrorContains(t, err, "full")
	assert.NotContains(t, err.Error(), receivertest.Canary)
	require.NotEmpty(t, acknowledged)
	if restart {
		inbox.Crash()
		inbox, err = open(c)
		require.NoError(t, err)
	}
	closed(t, inbox)
	close(gate)
	all := int64(len(acknowledged))
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), "webhook inbox cannot ") || returned.Load() >= all
	}, time.Minute, time.Millisecond)
	makeRoom(inbox)
	for range all {
		a := <-made
		for a.Result == webhook.ResultLost { // a handler of the first inbox had the event
			a = <-made
		}
		require.Equal(t, webhook.ResultHandled, a.Result, "%v", a.Err)
		assert.True(t, restart || a.Number == 1, "attempt %d", a.Number)
		assert.True(t, acknowledged[a.Key])
		delete(acknowledged, a.Key)
	}
	receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Equal(t, map[string]int{"ok": 1}, countTexts(t, db, "PRAGMA integrity_check"))
}

// TestInboxSurvivesPageLimit fills a database up to the limit of the program.
func TestInboxSurvivesPageLimit(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"running": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			db := limited(t, path)
			fillUp(t, path, restart, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.New(db, c) },
				func(inbox *sqlinbox.Inbox) { inbox.Pragma(t, "max_page_count = 2000") })
		})
	}
}

// limited opens a database of at most 1,000 pages.
func limited(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=max_page_count(1000)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	return db
}

// An accept without room must not affect the other writes of its transaction.
func TestRejectedAcceptHarmsNoOtherWrite(t *testing.T) {
	t.Parallel()
	inbox, err := sqlinbox.New(limited(t, newPath(t)), config(t, receivertest.Succeed))
	require.NoError(t, err)
	closed(t, inbox)
	for range 3 { // the first batch may contain a claim of the dispatcher instead
		queued, end := inbox.Batch(t)
		var callers sync.WaitGroup
		callers.Go(func() {
			_, err := inbox.Accept(t.Context(), large(8<<10))
			assert.ErrorContains(t, err, "full")
		})
		callers.Go(func() {
			_, err := inbox.ClaimCheckpoint(t.Context(), "name", "holder", time.Hour)
			assert.NoError(t, err)
		})
		queued(2)
		end()
		callers.Wait()
	}
	require.NoError(t, inbox.CheckWrite(t.Context()))
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

func TestNewBodiesReuseSpace(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	var sizes []int64
	for range 4 {
		gate := make(chan struct{})
		inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.Open(path, c) })
		var senders sync.WaitGroup
		for range 300 { // 600 KB
			senders.Go(func() { receivertest.Accept(t, inbox) })
		}
		senders.Wait()
		close(gate)
		for range 300 {
			<-made
		}
		require.NoError(t, inbox.Close(t.Context()))
		sizes = append(sizes, size(t, path))
	}
	assert.Less(t, sizes[3], sizes[0]+3*300*500, "%v", sizes)
}
