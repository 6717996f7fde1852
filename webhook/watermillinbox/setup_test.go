package watermillinbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
)

// accept gives a new event to an inbox.
func accept(t *testing.T, inbox webhook.Inbox) webhook.Delivery {
	t.Helper()
	d := receivertest.NewDelivery()
	require.True(t, isNew(t, inbox, d))
	return d
}

// isNew gives an event to an inbox and reports whether it was new to it.
func isNew(t *testing.T, inbox webhook.Inbox, d webhook.Delivery) bool {
	t.Helper()
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	return !receipt.Duplicate
}

// await waits for the next attempt.
func await(t *testing.T, made <-chan webhook.Attempt) webhook.Attempt {
	t.Helper()
	select {
	case a := <-made:
		return a
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "waited in vain for an attempt")
	}
	return webhook.Attempt{}
}

// handled waits for the attempt of an event, which has to receivertest.Succeed.
func handled(t *testing.T, made <-chan webhook.Attempt, d webhook.Delivery) {
	t.Helper()
	a := await(t, made)
	require.Equal(t, webhook.ResultHandled, a.Result)
	require.Equal(t, d.Key, a.Key)
}

// never asserts that nothing is tried. That can only be seen by waiting: a correct
// inbox passes whatever the length.
func never(t *testing.T, made <-chan webhook.Attempt) {
	t.Helper()
	select {
	case a := <-made:
		require.FailNow(t, "tried once more", "%s %s", a, a.Result)
	case <-time.After(50 * time.Millisecond):
	}
}
