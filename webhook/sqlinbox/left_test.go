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
