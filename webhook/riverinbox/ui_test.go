package riverinbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

var errBad = webhook.Permanent(errDown)

// inRiver changes the jobs of events like River's UI.
func (d database) inRiver(t *testing.T, do func(context.Context, int64) (*rivertype.JobRow, error), events ...webhook.Delivery) {
	t.Helper()
	for _, event := range events {
		_, err := do(t.Context(), d.job(t, event))
		require.NoError(t, err)
	}
}

// replayAll replays all dead letters.
func replayAll(t *testing.T, inbox *riverinbox.Inbox, want int) {
	t.Helper()
	n, err := inbox.Replay(t.Context(), engine.Filter{Until: engine.Position{At: time.Now().Add(time.Hour)}})
	require.NoError(t, err)
	require.Equal(t, want, n)
}

// TestRetryInRiverKeepsOrder retries a waiting event and a dead letter while the head of their
// ordering key runs.
func TestRetryInRiverKeepsOrder(t *testing.T) {
	t.Parallel()
	d, inbox, begun, _ := newInbox(t, ordered)
	e1, e2, e3, e4 := in("a", 1), in("a", 2), in("a", 3), in("a", 4)
	acceptNew(t, inbox, e1)
	next(t, begun).end <- errBad
	d.becomes(t, "cancelled", e1)
	acceptNew(t, inbox, e2, e3, e4)
	head := next(t, begun)
	d.inRiver(t, inbox.River().JobRetry, e4, e1, e2) // does not change the running job
	d.becomes(t, "pending", e4, e1)
	assert.Equal(t, 3, count(t, d, "SELECT count(*) FROM inbox_order WHERE NOT head"))
	assert.Equal(t, "0", d.of(t, e4, "attempt"))
	head.end <- nil
	handleAll(t, begun, e1, e3, e4)
	d.becomes(t, "completed", e1, e2, e3, e4)
	d.allEnd(t)
}

// TestRetryInRiverAddsOneAttempt retries an event without remaining attempts, and compares the
// result with Replay.
func TestRetryInRiverAddsOneAttempt(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, func(c *riverinbox.Config) {
		ordered(c)
		c.Work.Retry = webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond}
	})
	for _, orderingKey := range []string{free, "a"} {
		event := in(orderingKey, 1)
		acceptNew(t, inbox, event)
		wait := func() {}
		retry := func() { d.inRiver(t, inbox.River().JobRetry, event) }
		replay := func() { replayAll(t, inbox, 1) }
		for n, step := range []struct {
			before func()
			end    error
			result webhook.Result
			number int
		}{
			{wait, nil, webhook.ResultHandled, 1}, {retry, nil, webhook.ResultHandled, 2}, {retry, nil, webhook.ResultHandled, 3},
			{retry, errDown, webhook.ResultDead, 4}, {retry, errDown, webhook.ResultDead, 5},
			{replay, errDown, webhook.ResultFailed, 1}, {wait, errDown, webhook.ResultDead, 2}, {retry, nil, webhook.ResultHandled, 3},
		} {
			step.before()
			next(t, begun).end <- step.end
			a := next(t, made)
			require.Equal(t, step.result, a.Result, n)
			require.Equal(t, step.number, a.Number, n)
		}
		assert.Equal(t, "completed", d.of(t, event, "state"))
		d.allEnd(t)
	}
}

// TestCancelInRiverMakesDeadLetter cancels waiting and retryable events.
func TestCancelInRiverMakesDeadLetter(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	cancel := inbox.River().JobCancel
	for _, orderingKey := range []string{free, "a"} {
		handled, retryable, pending := in(orderingKey, 1), in(orderingKey, 2), in(orderingKey, 3)
		acceptNew(t, inbox, handled)
		handleAll(t, begun, handled)
		assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
		d.inRiver(t, cancel, handled) // changes nothing
		acceptNew(t, inbox, retryable)
		next(t, begun).end <- errDown
		assert.Equal(t, webhook.ResultFailed, next(t, made).Result)
		dead := []webhook.Delivery{retryable}
		if orderingKey != free {
			acceptNew(t, inbox, pending)
			d.inRiver(t, cancel, pending)
			dead = append(dead, pending)
		}
		d.inRiver(t, cancel, retryable)
		d.becomes(t, "completed", handled)
		d.becomes(t, "cancelled", dead...)
		d.allEnd(t)
		letters, err := inbox.List(t.Context(), engine.Filter{Reason: "canceled in River"}, engine.Page{Limit: 10})
		require.NoError(t, err)
		require.Len(t, letters, len(dead))
		replayAll(t, inbox, len(dead))
		for range dead {
			c := next(t, begun)
			assert.Equal(t, 1, c.Attempt)
			c.end <- nil
			assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
		}
	}
}

// TestCancelInRiverEndsOneAttempt cancels running events, and replays them at once.
func TestCancelInRiverEndsOneAttempt(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	var again []call
	for n := range 4 {
		event := in(free, n)
		acceptNew(t, inbox, event)
		c := next(t, begun)
		d.inRiver(t, inbox.River().JobCancel, event)
		<-c.ctx.Done()
		c.end <- c.ctx.Err()
		assert.Equal(t, webhook.ResultReturned, next(t, made).Result)
		d.becomes(t, "cancelled", event)
		replayAll(t, inbox, 1)
		again = append(again, next(t, begun))
	}
	d.beats(t, inbox, 1) // River acts before that
	for _, c := range again {
		c.end <- nil
		assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	}
}

// TestCancelInRiverKeepsOutcome cancels an event with a handler that ignores its context.
func TestCancelInRiverKeepsOutcome(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	for outcome, state := range map[error]string{nil: "completed", errDown: "cancelled", errBad: "cancelled"} {
		event, later := in("a", 1), in("a", 2)
		acceptNew(t, inbox, event, later)
		c := next(t, begun)
		d.inRiver(t, inbox.River().JobCancel, event)
		<-c.ctx.Done()
		assert.Equal(t, "pending", d.of(t, later, "state"))
		c.end <- outcome
		assert.NotEqual(t, webhook.ResultLost, next(t, made).Result)
		d.becomes(t, state, event)
		handleAll(t, begun, later)
		assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	}
	d.allEnd(t)
}

// TestCancelInRiverSparesNextAttempt retries a canceled event before River records the canceled attempt.
func TestCancelInRiverSparesNextAttempt(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	event := in("a", 1)
	acceptNew(t, inbox, event)
	c := next(t, begun)
	d.inRiver(t, inbox.River().JobCancel, event)
	<-c.ctx.Done()
	c.end <- errBad
	require.Equal(t, webhook.ResultDead, next(t, made).Result)
	d.becomes(t, "cancelled", event)
	d.inRiver(t, inbox.River().JobRetry, event)
	c = next(t, begun)
	_, err := d.pool(t).Exec(t.Context(), `UPDATE river_job SET state = 'cancelled', finalized_at = now(), errors = array_append(errors, jsonb_build_object('error', $1::text))
		WHERE id = $2 AND state = 'running'`, river.ErrJobCancelledRemotely.Error(), d.job(t, event)) // as River does
	require.NoError(t, err)
	c.end <- nil
	assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	d.becomes(t, "completed", event)
	d.allEnd(t)
}

// TestDeleteInRiverDiscardsEvent deletes events in every state.
func TestDeleteInRiverDiscardsEvent(t *testing.T) {
	t.Parallel()
	d, inbox, begun, _ := newInbox(t, ordered)
	for _, orderingKey := range []string{free, "a"} {
		handled, dead, retryable, running := in(orderingKey, 1), in(orderingKey, 2), in(orderingKey, 4), in(orderingKey, 3)
		for _, of := range []struct {
			event webhook.Delivery
			end   error
			state string
		}{{handled, nil, "completed"}, {dead, errBad, "cancelled"}, {retryable, errDown, "retryable"}} {
			acceptNew(t, inbox, of.event)
			next(t, begun).end <- of.end
			d.becomes(t, of.state, of.event)
		}
		acceptNew(t, inbox, running)
		c := next(t, begun)
		_, err := inbox.River().JobDelete(t.Context(), d.job(t, running))
		require.ErrorIs(t, err, rivertype.ErrJobRunning)
		d.inRiver(t, inbox.River().JobDelete, handled, dead, retryable)
		for _, event := range []webhook.Delivery{handled, dead, retryable} {
			acceptAgain(t, inbox, event)
			finished, err := inbox.Finished(t.Context(), event.Key.EventID)
			require.NoError(t, err)
			require.Len(t, finished, 1)
			assert.Equal(t, event.Key != handled.Key, finished[0].Discarded)
		}
		c.end <- nil
		d.becomes(t, "completed", running)
		d.becomes(t, "", handled, dead, retryable)
		d.allEnd(t)
	}
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, engine.Stats{}, stats)
}
