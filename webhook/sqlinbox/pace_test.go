package sqlinbox_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestAcceptsAndHandlersShareTheWriter looks at what becomes one transaction while
// many events come in.
func TestAcceptsAndHandlersShareTheWriter(t *testing.T) {
	t.Parallel()
	const all = math.MaxInt
	for name, c := range map[string]struct {
		outcomes, expected int
		handling, waited   time.Duration
		limit              int
		waits              bool
	}{
		"no handlers":            {limit: all},
		"quick handlers":         {outcomes: 4, limit: 4},
		"one is still to come":   {outcomes: 3, expected: 1, handling: time.Microsecond, limit: 3, waits: true},
		"slow handlers":          {expected: 4, handling: time.Second, limit: all},
		"slow ones that are due": {outcomes: 4, expected: 4, handling: time.Second, limit: 4},
		"accepts wait for long":  {outcomes: 4, waited: time.Second, limit: all},
	} {
		limit, waits := sqlinbox.AcceptLimit(c.outcomes, c.expected, c.handling, c.waited)
		assert.Equal(t, c.limit, limit, name)
		assert.Equal(t, c.waits, waits, name)
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
		return sqlinbox.Open(newPath(t), c)
	})
	for range events {
		receivertest.Accept(t, inbox)
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
	c := config(t, receivertest.Succeed)
	c.Work.Workers = 1
	made := make(chan webhook.Attempt, 100)
	c.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) {
		made <- a
		runtime.Goexit()
	}
	inbox := open(t, newPath(t), c)
	for range 20 {
		receivertest.Accept(t, inbox)
	}
	for range 20 {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
}
