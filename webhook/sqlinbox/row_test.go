package sqlinbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

func TestDoneEventsKeepNoFailures(t *testing.T) {
	t.Parallel()
	c := config(t, func(ctx context.Context, _ events.Event) error {
		if handling := webhook.HandlingFrom(ctx); handling.Attempt == 1 || handling.Key.EventID == "discarded" {
			return assert.AnError
		}
		return nil
	})
	c.Work.Retry = webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond}
	made := receivertest.Observe(&c.Work)
	path := newPath(t)
	inbox := open(t, path, c)
	discarded := receivertest.NewDelivery()
	discarded.Key.EventID = "discarded"
	receivertest.Accept(t, inbox)
	_, err := inbox.Accept(t.Context(), discarded)
	require.NoError(t, err)
	for range 4 {
		<-made
	}
	rows := "SELECT state || coalesce(length(failures) > 100, '') FROM dispensary_inbox"
	assert.Equal(t, map[string]int{"6": 1, "51": 1}, countTexts(t, database(t, path), rows))
	n, err := inbox.Discard(t.Context(), engine.Filter{Keys: []webhook.Key{discarded.Key}})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	assert.Equal(t, map[string]int{"6": 2}, countTexts(t, database(t, path), rows))
}
