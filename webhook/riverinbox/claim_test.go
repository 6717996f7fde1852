package riverinbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// claims is an inbox that claims what a test has it claim, and nothing else.
type claims struct {
	database
	inbox *riverinbox.Inbox
	line  string // of all events, or empty
}

func newClaims(t *testing.T, line string) claims {
	t.Helper()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	config.Lease, config.Work.Retry.MaxAttempts = time.Hour, 3
	config.Work.Order = func(webhook.Delivery, events.Event) webhook.OrderingKey { return webhook.OrderingKey(line) }
	return claims{d, d.idle(t, config), line}
}

// claim claims an event, or the first of its line, which is nil if it cannot.
func (c claims) claim(t *testing.T, event webhook.Delivery) *riverinbox.Claim {
	t.Helper()
	claim, err := c.inbox.Claim(t.Context(), c.line, event.Key)
	require.NoError(t, err)
	return claim
}

// settle stores that a claimed event was handled.
func settle(t *testing.T, c *riverinbox.Claim) error {
	t.Helper()
	a := c.Attempt()
	a.Result = webhook.ResultHandled
	return c.Record(t.Context(), a, false)
}

// TestAttemptsOfCrashesAreCounted has all workers of an event die, and in between older
// events come to its line.
func TestAttemptsOfCrashesAreCounted(t *testing.T) {
	t.Parallel()
	c := newClaims(t, "a line")
	start := time.Now()
	kills := acceptOn(t, c.inbox, start)
	for number := 1; number <= 3; number++ {
		claim := c.claim(t, kills)
		require.NotNil(t, claim)
		assert.Equal(t, kills.Key, claim.Attempt().Key)
		assert.Equal(t, number, claim.Attempt().Number)
		require.NoError(t, claim.Attempt().Err)
		older := acceptOn(t, c.inbox, start.Add(-time.Hour))
		require.Nil(t, c.claim(t, older), "the line is taken")
		c.endClaims(t)
		next := c.claim(t, older)
		require.NotNil(t, next)
		assert.Equal(t, older.Key, next.Attempt().Key)
		assert.Equal(t, 1, next.Attempt().Number)
		require.ErrorIs(t, settle(t, claim), engine.ErrClaimLost)
		require.NoError(t, settle(t, next))
	}
	last := c.claim(t, kills)
	require.NotNil(t, last)
	a := last.Attempt()
	assert.Equal(t, kills.Key, a.Key)
	assert.Equal(t, 3, a.Number)
	require.ErrorIs(t, a.Err, webhook.ErrAbandoned)
	a.Result = webhook.ResultDead
	require.NoError(t, last.Record(t.Context(), a, false))
	held, err := c.inbox.List(t.Context(), engine.Filter{}, engine.Position{}, 2)
	require.NoError(t, err)
	require.Len(t, held, 1)
	assert.Equal(t, engine.StateDead, held[0].State)
	assert.Equal(t, 3, held[0].Attempts)
}

// TestClaimedEventsAreListed looks at an event that is claimed, abandoned, and claimed again.
func TestClaimedEventsAreListed(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"in a line": "a line", "in no line": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClaims(t, line)
			event, other := acceptOn(t, c.inbox, time.Now()), acceptOn(t, c.inbox, time.Now().Add(time.Minute))
			var position engine.Position
			holds := func(state engine.State, attempts int) {
				t.Helper()
				all := map[engine.State]int{engine.StateWaiting: 1}
				all[state]++
				for of, want := range all {
					counts, err := c.inbox.Count(t.Context(), engine.Filter{States: []engine.State{of}}, 0)
					require.NoError(t, err)
					assert.Equal(t, want, counts.Total, of)
				}
				listed, err := c.inbox.List(t.Context(), engine.Filter{}, engine.Position{}, 3)
				require.NoError(t, err)
				require.Len(t, listed, 2)
				assert.Equal(t, event.Key, listed[0].Key)
				assert.Equal(t, state, listed[0].State)
				assert.Equal(t, attempts, listed[0].Attempts)
				assert.Equal(t, other.Key, listed[1].Key)
				assert.Equal(t, engine.StateWaiting, listed[1].State)
				if position.IsZero() {
					position = listed[0].Position
				}
				assert.Equal(t, position, listed[0].Position, "it keeps its place")
				stats, err := c.inbox.Stats(t.Context())
				require.NoError(t, err)
				assert.Equal(t, all[engine.StateRunning], stats.Running)
				assert.Equal(t, all[engine.StateWaiting], stats.Waiting)
			}
			holds(engine.StateWaiting, 0)
			require.NotNil(t, c.claim(t, event))
			holds(engine.StateRunning, 1)
			c.endClaims(t)
			second := c.claim(t, event)
			require.NotNil(t, second)
			holds(engine.StateRunning, 2)
			a := second.Attempt()
			a.Result = webhook.ResultReturned
			require.NoError(t, second.Record(t.Context(), a, false))
			holds(engine.StateWaiting, 1)
		})
	}
}

// TestClaimsAreExtended extends claims, one of which is locked, and one taken by another worker.
func TestClaimsAreExtended(t *testing.T) {
	t.Parallel()
	c := newClaims(t, "")
	var held []*riverinbox.Claim
	for range 3 {
		claim := c.claim(t, acceptOn(t, c.inbox, time.Now()))
		require.NotNil(t, claim)
		held = append(held, claim)
	}
	locked, taken := held[0].Attempt().Key.String(), held[1].Attempt().Key.String()
	c.exec(t, "UPDATE dispensary_inbox_lines SET until = until - interval '1 minute'")
	c.exec(t, "UPDATE dispensary_inbox_lines SET claim = 'OLD' WHERE event = $1", taken)
	tx, err := c.pool(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM dispensary_inbox_lines WHERE event = $1 FOR NO KEY UPDATE", locked)
	require.NoError(t, err)
	c.inbox.ExtendClaims()
	require.NoError(t, tx.Rollback(t.Context()))
	extended := func() int {
		t.Helper()
		return count(t, c.database, "SELECT count(*) FROM dispensary_inbox_lines WHERE until > now() + interval '59 minutes 30 seconds'")
	}
	assert.Equal(t, 1, extended())
	require.NoError(t, held[0].Context.Err(), "it is not known to be lost")
	require.ErrorIs(t, held[1].Context.Err(), context.Canceled)
	require.NoError(t, held[2].Context.Err())
	c.inbox.ExtendClaims()
	assert.Equal(t, 2, extended())
}

// TestAnEventThatIsLockedDelaysNoWorker has another transaction keep the event of a job.
func TestAnEventThatIsLockedDelaysNoWorker(t *testing.T) {
	t.Parallel()
	c := newClaims(t, "")
	event := acceptOn(t, c.inbox, time.Now())
	errDone := errors.New("done")
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), c.pool(t), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "SELECT FROM dispensary_inbox FOR UPDATE")
		require.NoError(t, err)
		require.Nil(t, c.claim(t, event))
		return errDone
	}), errDone)
	require.NotNil(t, c.claim(t, event))
}
