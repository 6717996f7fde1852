package sqlinbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
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
		return errors.Is(err, sqlinbox.ErrFull)
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		_, err := inbox.Accept(context.Background(), receivertest.NewDelivery())
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}
