package sqlinbox_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// fillUp accepts events without handling them until the inbox is full. The same inbox or the
// next one must then handle all acknowledged events, and must have space for new ones.
func fillUp(t *testing.T, path string, restart bool, open func(sqlinbox.Config) (*sqlinbox.Inbox, error)) {
	t.Helper()
	gate := make(chan struct{})
	var c sqlinbox.Config
	inbox, made := gated(t, gate, func(given sqlinbox.Config) (*sqlinbox.Inbox, error) {
		c = given
		return open(c)
	})
	acknowledged := map[webhook.Key]bool{}
	log := database(t, path)
	for truncated := false; ; {
		d := receivertest.NewDelivery()
		d.Body = append(d.Body, bytes.Repeat([]byte(" "), 8<<10)...)
		_, err := inbox.Accept(t.Context(), d)
		if err == nil {
			truncated, acknowledged[d.Key] = false, true
			require.Less(t, len(acknowledged), 100_000)
			continue
		}
		require.ErrorContains(t, err, "full")
		assert.NotContains(t, err.Error(), receivertest.Canary)
		if truncated {
			break
		}
		_, err = log.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)") // the log has no space left
		require.NoError(t, err)
		truncated = true
	}
	if restart {
		inbox.Crash()
		var err error
		inbox, err = open(c)
		require.NoError(t, err)
		closed(t, inbox)
	}
	require.NotEmpty(t, acknowledged)
	close(gate)
	for len(acknowledged) > 0 {
		a := <-made
		if a.Result != webhook.ResultLost { // a handler of the first inbox had the event
			require.Equal(t, webhook.ResultHandled, a.Result, "%v", a.Err)
			delete(acknowledged, a.Key)
		}
	}
	require.Eventually(t, func() bool {
		_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
}

// TestInboxSurvivesPageLimit fills a database up to the limit of the program.
func TestInboxSurvivesPageLimit(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"running": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=max_page_count(1000)")
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			require.NoError(t, sqlinbox.Migrate(t.Context(), db))
			fillUp(t, path, restart, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.New(db, c) })
		})
	}
}

func TestAlmostFullDiskRejectsAcceptsOnly(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	free.Store(64 << 20)
	var log logtest.Buffer
	path, gate := newPath(t), make(chan struct{})
	inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) {
		c.Work.Workers, c.Work.Logger = 1, logtest.NewLogger(&log)
		return sqlinbox.Open(path, c.WithFreeBytes(&free))
	})
	receivertest.Accept(t, inbox)
	receivertest.Accept(t, inbox)
	require.Positive(t, size(t, path+"-wal"))

	free.Store(10 << 20)
	rejected := receivertest.NewDelivery()
	for range 2 {
		_, err := inbox.Accept(t.Context(), rejected)
		require.ErrorIs(t, err, sqlinbox.ErrFull)
		require.ErrorContains(t, err, filepath.Dir(path)+" has 10485760 bytes free, less than MinFreeBytes = 67108864")
		require.ErrorIs(t, inbox.CheckWrite(t.Context()), sqlinbox.ErrFull)
	}
	assert.Zero(t, size(t, path+"-wal"))
	_, err := inbox.ClaimCheckpoint(t.Context(), "name", "holder", time.Hour)
	require.NoError(t, err)
	close(gate)
	for range 2 {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}

	free.Store(64 << 20)
	require.NoError(t, inbox.CheckWrite(t.Context()))
	receipt, err := inbox.Accept(t.Context(), rejected)
	require.NoError(t, err)
	assert.False(t, receipt.Duplicate)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Equal(t, 1, strings.Count(log.String(), "rejects new events"), log.String())
	assert.Equal(t, 1, strings.Count(log.String(), "accepts new events again"), log.String())
}

// The other writes of a batch succeed if its accepts are rejected. Later accepts wait for the
// program's transactions as before.
func TestRejectedAcceptsHarmNoOtherWrite(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	path := newPath(t)
	inbox := open(t, path, config(t, receivertest.Succeed).WithFreeBytes(&free))
	queued, end := inbox.Batch(t)
	var callers sync.WaitGroup
	callers.Go(func() {
		_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
		assert.ErrorIs(t, err, sqlinbox.ErrFull)
	})
	callers.Go(func() {
		_, err := inbox.ClaimCheckpoint(t.Context(), "name", "holder", time.Hour)
		assert.NoError(t, err)
	})
	queued(2)
	end()
	callers.Wait()

	free.Store(64 << 20)
	conn, err := database(t, path).Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	ended := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		ended <- err
	})
	receivertest.Accept(t, inbox)
	require.NoError(t, <-ended)
}

// Accepts reserve 64 pages of a limited database for the outcomes of events.
func TestAcceptsLeavePagesToOutcomes(t *testing.T) {
	t.Parallel()
	const limit = 400
	db, err := sql.Open("sqlite", "file:"+newPath(t)+"?_pragma=busy_timeout(10000)&_pragma=max_page_count(400)")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	inbox, err := sqlinbox.New(db, config(t, receivertest.Hold))
	require.NoError(t, err)
	t.Cleanup(func() { interrupt(t, inbox) })
	left := func() int {
		var pages, unused int
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
		require.NoError(t, db.QueryRowContext(t.Context(), "PRAGMA freelist_count").Scan(&unused))
		return limit - pages + unused
	}
	large := receivertest.NewDelivery()
	large.Body = append(large.Body, bytes.Repeat([]byte(" "), (left()-32)*4096)...)
	_, err = inbox.Accept(t.Context(), large)
	require.ErrorIs(t, err, sqlinbox.ErrFull)
	for err = nil; err == nil; {
		assert.Greater(t, left(), 60)
		_, err = inbox.Accept(t.Context(), receivertest.NewDelivery())
	}
	require.ErrorIs(t, err, sqlinbox.ErrFull)
}

// An emptied inbox accepts events although its file still fills the disk.
func TestUnusedPagesCountAsFree(t *testing.T) {
	t.Parallel()
	var free atomic.Int64
	c := config(t, receivertest.Succeed).WithFreeBytes(&free)
	made := receivertest.Observe(&c.Work)
	c.MinFreeBytes = 1 << 20
	path := newPath(t)
	db := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	inbox, err := sqlinbox.New(db, c)
	require.NoError(t, err)
	closed(t, inbox)
	d := receivertest.NewDelivery()
	d.Body = append(d.Body, bytes.Repeat([]byte(" "), 1<<20)...)
	free.Store(600 << 10)
	_, err = inbox.Accept(t.Context(), d)
	require.ErrorIs(t, err, sqlinbox.ErrFull)
	free.Store(1 << 20)
	_, err = inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	free.Store(600 << 10)
	require.NoError(t, inbox.CheckWrite(t.Context()))
	free.Store(400 << 10) // unused pages count up to half of the minimum
	require.ErrorIs(t, inbox.CheckWrite(t.Context()), sqlinbox.ErrFull)
}

func TestUnknownFreeSpaceIsIgnored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ free, minimum int64 }{"unknown": {free: -1}, "disabled": {minimum: -1}} {
		var free atomic.Int64
		free.Store(c.free)
		config := config(t, receivertest.Succeed).WithFreeBytes(&free)
		config.MinFreeBytes = c.minimum
		require.NoError(t, open(t, newPath(t), config).CheckWrite(t.Context()), name)
	}
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
