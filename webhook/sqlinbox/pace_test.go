package sqlinbox_test

import (
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestAcceptsAndHandlersShareTheWriter looks at what becomes one transaction while
// many events come in.
func TestAcceptsAndHandlersShareTheWriter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waiting           sqlinbox.Waiting
		outcomes, accepts int
	}{
		"nobody handles":         {sqlinbox.Waiting{Accepts: 900}, 0, 256},
		"quick handlers":         {sqlinbox.Waiting{Accepts: 900, Outcomes: 4}, 4, 4},
		"one is still to come":   {sqlinbox.Waiting{Accepts: 900, Outcomes: 3, Expected: 1, Handling: time.Microsecond}, 3, 3},
		"slow handlers":          {sqlinbox.Waiting{Accepts: 900, Expected: 4, Handling: time.Second}, 0, 256},
		"slow ones that are due": {sqlinbox.Waiting{Accepts: 900, Outcomes: 4, Expected: 4, Handling: time.Second}, 4, 4},
		"accepts wait for long":  {sqlinbox.Waiting{Accepts: 900, Outcomes: 4, Waited: time.Second}, 4, 252},
		"few accepts":            {sqlinbox.Waiting{Accepts: 2, Outcomes: 4}, 4, 2},
		"large accepts":          {sqlinbox.Waiting{Accepts: 900, Bytes: 1 << 19}, 0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcomes, accepts, first := sqlinbox.NextBatch(c.waiting)
			assert.Equal(t, c.outcomes, outcomes, "outcomes")
			assert.Equal(t, c.accepts, accepts, "accepts")
			assert.True(t, first, "handlers wait for outcomes")
		})
	}
}

// TestOutcomeAndNextEventShareATransaction holds that a handler waits for one
// transaction between two events.
func TestOutcomeAndNextEventShareATransaction(t *testing.T) {
	t.Parallel()
	const events = 50
	gate := make(chan struct{})
	inbox, made := gated(t, gate, func(c sqlinbox.Config) (*sqlinbox.Inbox, error) {
		c.Work.Workers, c.Work.Order = 1, webhook.ByObject
		return sqlinbox.Open(filepath.Join(t.TempDir(), "inbox.db"), c)
	})
	for range events {
		accept(t, inbox)
	}
	inbox.AwaitClaims(t, 1)
	count := inbox.CountTransactions(t)
	close(gate)
	for range events {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
	assert.Less(t, count(), events+events/2)
}

// TestObserverThatEndsItsGoroutine holds that the event which comes next does not
// depend on it.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	c := config(t, func(context.Context, events.Event) error { return nil })
	c.Work.Workers = 1
	made := make(chan webhook.Attempt, 100)
	c.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) {
		made <- a
		runtime.Goexit()
	}
	inbox, err := sqlinbox.Open(filepath.Join(t.TempDir(), "inbox.db"), c)
	require.NoError(t, err)
	closed(t, inbox)
	for range 20 {
		accept(t, inbox)
	}
	for range 20 {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
}
