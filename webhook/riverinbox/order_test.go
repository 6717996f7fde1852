package riverinbox_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// soon is the longest wait of a test for an expected event.
const soon = time.Minute

var errDown = errors.New("down")

// errWrite makes the handler of a call return through a transaction.
var errWrite = errors.New("write")

// call is a running attempt whose handler waits for the test.
type call struct {
	webhook.Handling
	ctx context.Context
	end chan<- error
}

// calls returns a handler that waits for the test and ignores its context, and a channel with
// its calls.
func calls(t testing.TB) (webhook.HandlerFunc, <-chan call) {
	begun := make(chan call, 1000)
	return func(ctx context.Context, _ events.Event) error {
		end := make(chan error, 1)
		begun <- call{webhook.HandlingFrom(ctx), ctx, end}
		select {
		case err := <-end:
			if errors.Is(err, errWrite) {
				return riverinbox.InTransaction(ctx, write)
			}
			return err
		case <-t.Context().Done():
			return t.Context().Err()
		}
	}, begun
}

// next receives from a channel.
func next[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		require.FailNow(t, "received no value in time")
	}
	return v
}

// handleAll makes handlers succeed, and requires calls for these events in order.
func handleAll(t testing.TB, begun <-chan call, events ...webhook.Delivery) {
	t.Helper()
	for n, event := range events {
		c := next(t, begun)
		require.Equal(t, event.Key, c.Key, "call %d", n)
		c.end <- nil
	}
}

func eventually(t testing.TB, condition func() bool, message string) {
	t.Helper()
	require.Eventually(t, condition, soon, 5*time.Millisecond, message)
}

// free is the ordering key of events without order.
const free = "free"

// byIntegration orders the events of each integration except free.
func byIntegration(d webhook.Delivery, _ events.Event) webhook.OrderingKey {
	if d.Key.IntegrationID == free {
		return ""
	}
	return webhook.OrderingKey(d.Key.IntegrationID)
}

// ordered enables ordering keys and a retry after an hour. All replicas use the same
// encryption key.
func ordered(c *riverinbox.Config) {
	c.Seal, _ = receivertest.FixedKeyRing()
	c.Work.Order, c.Work.Retry.BackOff, c.Work.Retry.MaxBackOff = byIntegration, time.Hour, time.Hour
}

// newInbox opens an inbox in a new database. Its handler waits for the test.
func newInbox(t *testing.T, change func(*riverinbox.Config)) (database, *riverinbox.Inbox, <-chan call, <-chan webhook.Attempt) {
	t.Helper()
	d := newDatabase(t)
	handle, begun := calls(t)
	inbox, made := d.start(t, handle, change)
	return d, inbox, begun, made
}

// in returns an event with an ordering key, created in a given second of the last hour.
func in(orderingKey string, second int) webhook.Delivery {
	d := receivertest.NewDelivery()
	d.Key.IntegrationID = orderingKey
	d.CreatedAt = time.Now().Add(-time.Hour).Truncate(time.Hour).Add(time.Duration(second) * time.Second)
	return d
}

// of evaluates an expression about the job j of an event and returns it as text. The text is
// empty if there is no job.
func (d database) of(t *testing.T, event webhook.Delivery, expression string) string {
	t.Helper()
	query := "SELECT (" + expression + ")::text FROM river_job j WHERE j.args->>'key' = $1"
	return strings.Join(texts(t, d, query, event.Key.String()), " ")
}

// job returns the job of an event.
func (d database) job(t *testing.T, event webhook.Delivery) int64 {
	t.Helper()
	id, err := strconv.ParseInt(d.of(t, event, "id"), 10, 64)
	require.NoError(t, err)
	return id
}

// becomes waits until the jobs of events have a state.
func (d database) becomes(t *testing.T, state string, events ...webhook.Delivery) {
	t.Helper()
	for _, event := range events {
		eventually(t, func() bool { return d.of(t, event, "state") == state }, "a job is not "+state)
	}
}

// beats waits for n more heartbeats of a process.
func (d database) beats(t *testing.T, inbox *riverinbox.Inbox, n int) {
	t.Helper()
	const beats = "SELECT coalesce(max(beats), 0) FROM inbox_worker WHERE client = $1"
	now := count(t, d, beats, inbox.Name())
	eventually(t, func() bool { return count(t, d, beats, inbox.Name()) >= now+n }, "the process stores no heartbeat")
}

// allEnd waits until no ordering key has a job, and compares the dead letters with their jobs.
func (d database) allEnd(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { return count(t, d, "SELECT count(*) FROM inbox_order") == 0 }, "an ordering key is stalled")
	assert.Zero(t, count(t, d, `SELECT count(*) FROM inbox_dead d FULL JOIN (SELECT * FROM river_job WHERE state IN ('cancelled', 'discarded')) j
		ON j.id = d.job AND j.finalized_at = d.at AND j.args->>'key' = d.key WHERE j.id IS NULL OR d.job IS NULL`))
}

// settles waits until no head has to move.
func (d database) settles(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { return count(t, d, "SELECT count(*) FROM inbox_moves") == 0 }, "a head has not moved")
}

// handled returns the argument of inbox_end for a successful first attempt of an event.
func (d database) handled(t *testing.T, event webhook.Delivery) string {
	t.Helper()
	return d.of(t, event, `jsonb_build_array(jsonb_build_object('n', 0, 'job', id, 'at', attempted_at,
		'ordering_key', inbox_digest(metadata->>'ordering_key'), 'state', 'completed', 'attempt', 1))`)
}

// TestOlderEventRunsFirst accepts events older than the head of an ordering key while the head
// runs, and while it waits for a retry.
func TestOlderEventRunsFirst(t *testing.T) {
	t.Parallel()
	d, inbox, begun, _ := newInbox(t, ordered)
	e1, e2, e3, e5, e7 := in("a", 1), in("a", 2), in("a", 3), in("a", 5), in("a", 7)
	acceptNew(t, inbox, e5)
	head := next(t, begun)
	acceptNew(t, inbox, e7, e3, e2)
	d.settles(t)
	head.end <- errDown
	handleAll(t, begun, e2, e3)
	const backsOff = "state = 'available' AND scheduled_at > now() + interval '20 minutes'"
	eventually(t, func() bool { return d.of(t, e5, backsOff) == "true" }, "the event lost its backoff")
	acceptNew(t, inbox, e1)
	older := next(t, begun)
	assert.Equal(t, e1.Key, older.Key)
	assert.Equal(t, "pending", d.of(t, e5, "state"))
	older.end <- nil
	eventually(t, func() bool { return d.of(t, e5, backsOff) == "true" }, "the event lost its backoff")
	d.inRiver(t, inbox.River().JobRetry, e5)
	handleAll(t, begun, e5, e7)
	d.allEnd(t)
}

// TestFetchedHeadStaysHead accepts an older event while River fetches the head of its ordering
// key.
func TestFetchedHeadStaysHead(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.config(t, receivertest.Succeed)
	ordered(&c)
	inbox := d.idle(t, c)
	e2, e5 := in("a", 2), in("a", 5)
	acceptNew(t, inbox, e5)
	tx, err := d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE river_job SET state = 'running', attempt = 1")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err = inbox.Accept(ctx, e2)
	require.NoError(t, err, "the accept must not wait for the fetch")
	require.NoError(t, tx.Commit(t.Context()))
	assert.Equal(t, "running", d.of(t, e5, "state"))
	assert.Equal(t, "pending", d.of(t, e2, "state"))
	assert.EqualValues(t, d.job(t, e5), count(t, d, "SELECT job FROM inbox_order WHERE head"))
}

// TestOpenTransactionsDelayNoEvent keeps an accept and an outcome of an ordering key uncommitted.
// Other accepts and outcomes of the key must not wait, and no event may be forgotten.
func TestOpenTransactionsDelayNoEvent(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, func(c *riverinbox.Config) { ordered(c); *c = c.Still() })
	e1, e2, e3, e4 := in("a", 1), in("a", 2), in("a", 3), in("a", 4)
	acceptNew(t, inbox, e1)
	first := next(t, begun)
	tx, err := d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = inbox.AcceptIn(t.Context(), tx, e2)
	require.NoError(t, err)
	first.end <- nil
	assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	acceptNew(t, inbox, e3)
	handleAll(t, begun, e3)
	assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, inbox.Sweep(t.Context()))
	second := next(t, begun)
	assert.Equal(t, e2.Key, second.Key)

	tx, err = d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT inbox_end($1)", d.handled(t, e2))
	require.NoError(t, err)
	acceptNew(t, inbox, e4)
	require.NoError(t, inbox.Sweep(t.Context()))
	assert.Empty(t, begun, "the head has not ended yet")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, inbox.Sweep(t.Context()))
	handleAll(t, begun, e4)
	assert.Equal(t, webhook.ResultHandled, next(t, made).Result)
	second.end <- nil
	assert.Equal(t, webhook.ResultLost, next(t, made).Result)
	d.allEnd(t)
}

// TestUnsettledOlderEventRunsFirst commits an older event like a process that dies before it moves
// the head.
func TestUnsettledOlderEventRunsFirst(t *testing.T) {
	t.Parallel()
	d, inbox, begun, _ := newInbox(t, func(c *riverinbox.Config) { alone(c); *c = c.Still() })
	acceptNew(t, inbox, in(free, 1))
	busy := next(t, begun)
	newer, older := in("a", 9), in("a", 1)
	acceptNew(t, inbox, newer)
	d.becomes(t, "available", newer)
	require.NoError(t, pgx.BeginFunc(t.Context(), d.reader(t), func(tx pgx.Tx) error {
		_, err := inbox.AcceptIn(t.Context(), tx, older)
		return err
	}))
	tx, err := d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM inbox_moves FOR UPDATE") // no other process moves the head either
	require.NoError(t, err)
	busy.end <- nil
	handleAll(t, begun, older, newer)
	d.allEnd(t)
}

// TestReplayAtOnceKeepsPlace replays each dead letter before its place has been removed.
func TestReplayAtOnceKeepsPlace(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	event := in("a", 1)
	acceptNew(t, inbox, event)
	for range 30 {
		next(t, begun).end <- errBad
		require.Equal(t, webhook.ResultDead, next(t, made).Result)
		replayAll(t, inbox, 1)
	}
	handleAll(t, begun, event)
	d.allEnd(t)
}

// TestSweepReplacesLostHead ends the head of an ordering key outside of the inbox while it
// waits for a retry.
func TestSweepReplacesLostHead(t *testing.T) {
	t.Parallel()
	d, inbox, begun, _ := newInbox(t, ordered)
	for orderingKey, end := range map[string]string{
		"deleted":   "DELETE FROM river_job WHERE id = $1",
		"canceled":  "UPDATE river_job SET state = 'cancelled', finalized_at = now() WHERE id = $1",
		"discarded": "UPDATE river_job SET state = 'discarded', finalized_at = now() WHERE id = $1",
		"completed": "UPDATE river_job SET state = 'completed', finalized_at = now() WHERE id = $1",
	} {
		e5, e6, e7 := in(orderingKey, 5), in(orderingKey, 6), in(orderingKey, 7)
		acceptNew(t, inbox, e5)
		next(t, begun).end <- errDown
		d.becomes(t, "retryable", e5)
		acceptNew(t, inbox, e6, e7)
		require.Equal(t, "pending", d.of(t, e6, "state"))
		d.exec(t, end, d.job(t, e5))
		handleAll(t, begun, e6, e7)
	}
	d.allEnd(t)
}

func TestOrderingKeySkipsEndedEvents(t *testing.T) {
	t.Parallel()
	d, inbox, begun, _ := newInbox(t, func(c *riverinbox.Config) { ordered(c); *c = c.Still() })
	e1, e2, e3, e4 := in("a", 1), in("a", 2), in("a", 3), in("a", 4)
	acceptNew(t, inbox, e1, e2, e3, e4)
	head := next(t, begun)
	d.inRiver(t, inbox.River().JobDelete, e2)
	d.inRiver(t, inbox.River().JobCancel, e3)
	head.end <- nil
	handleAll(t, begun, e4)
	d.allEnd(t)
}
