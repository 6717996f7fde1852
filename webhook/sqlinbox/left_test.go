package sqlinbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// leave has f called with a context that ends while the writer is about to do
// what f has asked for, which it then does: once f has returned, or meanwhile.
func leave(t *testing.T, inbox *sqlinbox.Inbox, meanwhile bool, f func(context.Context)) {
	t.Helper()
	queued, end := inbox.Batch(t)
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		f(ctx)
	}()
	queued(1)
	cancel()
	if meanwhile {
		end()
		<-left
		return
	}
	<-left
	end()
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
	leave(t, inbox, false, func(ctx context.Context) {
		state, err := inbox.ClaimCheckpoint(ctx, "name", "left", time.Hour)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Nil(t, state)
	})
	state, err := inbox.ClaimCheckpoint(t.Context(), "name", "next", time.Hour)
	require.NoError(t, err)
	assert.Equal(t, "state", string(state))
}

// TestClaimOfCheckpointWhoseCallerLeaves is one for the race detector.
func TestClaimOfCheckpointWhoseCallerLeaves(t *testing.T) {
	t.Parallel()
	inbox := open(t, newPath(t), config(t, receivertest.Succeed))
	for range 10 {
		leave(t, inbox, true, func(ctx context.Context) {
			_, err := inbox.ClaimCheckpoint(ctx, "name", "holder", time.Hour)
			if err != nil {
				assert.ErrorIs(t, err, context.Canceled)
			}
		})
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
