package riverinbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestStuckHandlerLosesItsEvent holds that an event whose handler ignores its
// context for long is given to another one, and that the first comes too late.
func TestStuckHandlerLosesItsEvent(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(webhook.Delivery, events.Event) webhook.OrderingKey{"in order": webhook.ByObject, "as they come": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stuck, gate := make(chan struct{}), make(chan struct{})
			inbox, made := newDatabase(t).start(t, func(ctx context.Context, _ events.Event) error {
				if webhook.HandlingFrom(ctx).Attempt == 1 {
					close(stuck)
					<-gate
				}
				return nil
			}, func(c *riverinbox.Config) {
				c.Work.HandlerTimeout, c.Work.Order, c.Lease = 20*time.Millisecond, order, 4*time.Second
				*c = c.WithMargin(100 * time.Millisecond)
			})
			receivertest.Accept(t, inbox)
			<-stuck
			a := <-made // after a lease
			assert.Equal(t, webhook.ResultHandled, a.Result)
			assert.Equal(t, 2, a.Number)
			close(gate)
			a = <-made
			assert.Equal(t, webhook.ResultLost, a.Result)
			assert.Equal(t, 1, a.Number)
			stats, err := inbox.Stats(t.Context())
			require.NoError(t, err)
			assert.Zero(t, stats)
		})
	}
}

// TestEventsWithoutAJobAreFound deletes jobs, as people do in River's UI.
func TestEventsWithoutAJobAreFound(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	config := d.config(t, receivertest.Succeed)
	made := receivertest.Observe(&config.Work)
	d.migrate(t, pool)
	web, err := riverinbox.New(t.Context(), pool, config)
	require.NoError(t, err)
	want := map[webhook.Key]bool{receivertest.Accept(t, web).Key: true, receivertest.Accept(t, web).Key: true}
	config.Work.Order = webhook.ByClinic
	ordered, err := riverinbox.New(t.Context(), pool, config)
	require.NoError(t, err)
	want[receivertest.Accept(t, ordered).Key], want[receivertest.Accept(t, ordered).Key] = true, true
	require.NoError(t, web.Close(t.Context()))
	require.NoError(t, ordered.Close(t.Context()))
	d.exec(t, "DELETE FROM river_job")
	d.exec(t, "UPDATE dispensary_inbox SET due_at = due_at - interval '1 hour'") // they have waited for long
	open(t, pool, config)
	for range 4 {
		a := <-made
		assert.Equal(t, webhook.ResultHandled, a.Result)
		delete(want, a.Key)
	}
	assert.Empty(t, want)
}

// TestOutcomeIsNotedOnce notes outcomes again, as it is done where the database
// has not answered, and for a worker whose claim is not the last.
func TestOutcomeIsNotedOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	config.Lease = time.Hour
	inbox := d.idle(t, config)
	event := receivertest.Accept(t, inbox)
	claim := func() (*riverinbox.Claim, webhook.Attempt) {
		t.Helper()
		c, err := inbox.Claim(ctx, "", event.Key)
		require.NoError(t, err)
		require.NotNil(t, c)
		a := c.Attempt()
		require.Equal(t, event.Key, a.Key)
		return c, a
	}

	first, a := claim()
	assert.Equal(t, 1, a.Number)
	other, err := inbox.Claim(ctx, "", event.Key)
	require.NoError(t, err)
	require.Nil(t, other, "it is claimed")
	d.endClaims(t)
	second, a := claim()
	assert.Equal(t, 2, a.Number, "the first is counted")
	a.Result = webhook.ResultReturned
	require.ErrorIs(t, first.Record(ctx, a, false), engine.ErrClaimLost)
	require.NoError(t, second.Record(ctx, a, false))
	require.ErrorIs(t, second.Record(ctx, a, false), engine.ErrClaimLost)

	third, a := claim()
	assert.Equal(t, 2, a.Number, "the second was returned")
	a.Result, a.RetryIn, a.Err = webhook.ResultFailed, time.Hour, errors.New(receivertest.Canary)
	require.NoError(t, third.Record(ctx, a, false))
	require.NoError(t, third.Record(ctx, a, true), "the answer was lost")
	require.ErrorIs(t, third.Record(ctx, a, false), engine.ErrClaimLost)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE state = 1 AND attempts = 2 AND due_at > now() + interval '50 minutes'"))
	d.exec(t, "UPDATE dispensary_inbox SET due_at = clock_timestamp()")

	fourth, a := claim()
	a.Result, a.Err = webhook.ResultDead, errors.New(receivertest.Canary)
	require.NoError(t, fourth.Record(ctx, a, false))
	replayed, err := inbox.Replay(ctx, engine.Filter{Keys: []webhook.Key{event.Key}})
	require.NoError(t, err)
	assert.Equal(t, 1, replayed)
	require.NoError(t, fourth.Record(ctx, a, true), "it was recorded, whatever became of it since")

	fifth, a := claim()
	assert.Equal(t, 1, a.Number)
	a.Result = webhook.ResultHandled
	require.NoError(t, fifth.Record(ctx, a, false))
	require.NoError(t, fifth.Record(ctx, a, true))
	assert.Len(t, known(t, d, event.Key.String()), 1)
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE state <> 3 OR body IS NOT NULL"))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox_lines"))
}

// TestAnUnsureOutcomeOfALostClaim holds that an outcome without an answer does not count as
// stored where another worker may have ended the claim.
func TestAnUnsureOutcomeOfALostClaim(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	config.Lease = time.Second
	inbox := d.idle(t, config)
	event := receivertest.Accept(t, inbox)
	c, err := inbox.Claim(ctx, "", event.Key)
	require.NoError(t, err)
	d.exec(t, "DELETE FROM dispensary_inbox_lines")
	a := c.Attempt()
	a.Result = webhook.ResultHandled
	require.Eventually(t, func() bool { return errors.Is(c.Record(ctx, a, true), engine.ErrClaimLost) }, time.Minute, 10*time.Millisecond)
}
