package sqlinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// fillUp has an inbox accept events, none of which is handled, until it is full. All
// that were acknowledged are handled after that, by the same inbox or the next, and
// then there is room for others.
func fillUp(t *testing.T, restart bool, open func(sqlinbox.Config) (*sqlinbox.Inbox, error)) {
	t.Helper()
	gate := make(chan struct{})
	var c sqlinbox.Config
	inbox, made := gated(t, gate, func(given sqlinbox.Config) (*sqlinbox.Inbox, error) {
		c = given
		return open(c)
	})
	acknowledged := map[webhook.Key]bool{}
	for refused := 0; refused < 20; {
		d := receivertest.NewDelivery()
		d.Body = append(d.Body, bytes.Repeat([]byte(" "), 8<<10)...)
		if _, err := inbox.Accept(t.Context(), d); err != nil {
			require.ErrorContains(t, err, "full")
			assert.NotContains(t, err.Error(), receivertest.Canary)
			require.ErrorContains(t, inbox.CheckWrite(t.Context()), "full")
			refused++
			continue
		}
		acknowledged[d.Key] = true
		require.Less(t, len(acknowledged), 100_000)
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
		if a.Result != webhook.ResultLost { // it was in the hands of the first
			require.Equal(t, webhook.ResultHandled, a.Result, "%v", a.Err)
			delete(acknowledged, a.Key)
		}
	}
	require.Eventually(t, func() bool {
		_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
		return err == nil
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, inbox.CheckWrite(t.Context()))
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
}

// TestInboxThatReachedItsQuota has one grow to what the program allows it.
func TestInboxThatReachedItsQuota(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"running": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=max_page_count(1000)")
			require.NoError(t, err)
			t.Cleanup(func() { _ = db.Close() })
			require.NoError(t, sqlinbox.Migrate(t.Context(), db))
			fillUp(t, restart, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.New(db, c) })
		})
	}
}

// TestAcceptWhileThereIsNoRoom holds that nothing is begun then.
func TestAcceptWhileThereIsNoRoom(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	require.Eventually(t, func() bool { // upkeep makes room again at any moment
		inbox.RunOut(t)
		_, err := inbox.Accept(context.Background(), receivertest.NewDelivery())
		return errors.Is(err, sqlinbox.ErrFull) && errors.Is(inbox.CheckWrite(context.Background()), sqlinbox.ErrFull)
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := inbox.Accept(context.Background(), receivertest.NewDelivery())
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

// burst has an inbox take n events before it handles the first.
func burst(t *testing.T, inbox *sqlinbox.Inbox, gate chan struct{}, made <-chan webhook.Attempt, n int) {
	t.Helper()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for range n / 10 {
				_, err := inbox.Accept(t.Context(), receivertest.NewDelivery())
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	close(gate)
	for range n {
		<-made
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// TestFileShrinksAfterABurst holds that the bodies of handled events take no room:
// what a burst leaves behind is hardly larger than what is in it.
func TestFileShrinksAfterABurst(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	gate := make(chan struct{})
	inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.Open(path, c) })
	burst(t, inbox, gate, made, 1000) // 2 MB of bodies
	require.NoError(t, inbox.Shrink())
	require.NoError(t, inbox.Close(t.Context()))
	db := database(t, path)
	_, err := db.ExecContext(t.Context(), "VACUUM INTO ?", path+".vacuumed")
	require.NoError(t, err)
	const spare = 256 * 4096 // is kept in any case
	assert.Less(t, float64(size(t, path)-spare), 1.5*float64(size(t, path+".vacuumed")))
}

// TestBodiesUseTheRoomOfOthers holds the same for a file that cannot shrink, as the
// program made it without that: what is deleted makes room for what comes.
func TestBodiesUseTheRoomOfOthers(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	db := database(t, path)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	var sizes []int64
	for range 4 {
		gate := make(chan struct{})
		inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) { return sqlinbox.New(db, c) })
		burst(t, inbox, gate, made, 300) // 600 KB
		require.NoError(t, inbox.Close(t.Context()))
		checkpoint(t, db)
		sizes = append(sizes, size(t, path))
	}
	assert.Less(t, sizes[3], sizes[0]+3*300*500, "%v", sizes)
}

func checkpoint(t *testing.T, db *sql.DB) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)")
	require.NoError(t, err)
}
