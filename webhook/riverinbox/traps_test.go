package riverinbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestOpenRejectsSchemaOfOtherClient rejects a schema with another client of River, because
// its settings would apply to events too.
func TestOpenRejectsSchemaOfOtherClient(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.schema))
	for name, statement := range map[string]string{
		"job":    "INSERT INTO river_job (kind, max_attempts, args) VALUES ('%s', 1, '{}')",
		"queue":  "INSERT INTO river_queue (name, updated_at) VALUES ('%s', now())",
		"leader": "INSERT INTO river_leader (leader_id, elected_at, expires_at) VALUES ('%s', now(), now() + interval '1 hour')",
	} {
		for _, other := range []string{"a_first", "zz_last"} { // the names of the inbox are between them
			d.exec(t, fmt.Sprintf(statement, other))
			_, err := riverinbox.Open(t.Context(), pool, d.config(t, receivertest.Succeed))
			assert.Equal(t, "riverinbox.Config.Schema", fieldOf(t, err), name)
			d.exec(t, "TRUNCATE river_job, river_queue, river_leader")
		}
	}
	d.exec(t, "INSERT INTO river_leader (leader_id, elected_at, expires_at) VALUES ('former', now(), now() - interval '1 s')")
	open(t, pool, d.config(t, receivertest.Succeed))
}

// TestBeatReportsOtherClient starts another client of River in the schema of an open inbox.
func TestBeatReportsOtherClient(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var log strings.Builder
	config := d.config(t, receivertest.Succeed)
	config.Work.Logger = slog.New(slog.NewTextHandler(&log, nil))
	inbox := d.idle(t, config)
	require.NoError(t, inbox.Beat(t.Context()))
	assert.Empty(t, log.String())
	d.exec(t, "INSERT INTO river_leader (leader_id, elected_at, expires_at) VALUES ('other', now(), now() + interval '1 hour')")
	for range 2 {
		require.NoError(t, inbox.Beat(t.Context()))
		assert.Equal(t, 1, strings.Count(log.String(), "another client of River"), "once for each arrival")
	}
}

// TestHandmadeJobBreaksNothing inserts jobs of the inbox's kind without events.
func TestHandmadeJobBreaksNothing(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	insert := func(args, metadata, state string) (id int64) {
		t.Helper()
		require.NoError(t, d.looking.QueryRow(t.Context(), `INSERT INTO river_job (kind, queue, max_attempts, args, metadata, state)
			VALUES ('dispensary_webhook', 'dispensary_webhooks', 9, $1, $2, $3) RETURNING id`, args, metadata, state).Scan(&id))
		return id
	}
	for _, c := range [][2]string{{`{}`, `{}`}, {`{"key": "x"}`, `{"failures": 3, "ordering_key": ""}`}, {`[]`, `{"type": 5}`}, {`{"key": 1, "body": 2}`, `{"ordering_key": null}`}} {
		id := insert(c[0], c[1], "pending")
		_, err := inbox.List(t.Context(), engine.Filter{ID: "x"}, engine.Page{Limit: 10})
		require.NoError(t, err)
		_, err = inbox.River().JobCancel(t.Context(), id)
		require.NoError(t, err, c)
		listed, err := inbox.List(t.Context(), engine.Filter{}, engine.Page{Limit: 10})
		require.NoError(t, err, c)
		assert.Len(t, listed, 1)
		_, err = inbox.River().JobDelete(t.Context(), id)
		require.NoError(t, err, c)
		insert(c[0], c[1], "available")
		assert.Equal(t, webhook.ResultDead, next(t, made).Result)
		d.exec(t, "DELETE FROM river_job")
	}
	event := in("a", 1)
	acceptNew(t, inbox, event)
	handleAll(t, begun, event)
}

// TestTruncateLeavesNoDeadLetter truncates River's jobs, and reuses their IDs.
func TestTruncateLeavesNoDeadLetter(t *testing.T) {
	t.Parallel()
	d, inbox, begun, made := newInbox(t, ordered)
	dead, waiting, fresh := in("a", 1), in("a", 2), in("a", 3)
	acceptNew(t, inbox, dead, waiting)
	next(t, begun).end <- errBad
	assert.Equal(t, webhook.ResultDead, next(t, made).Result)
	next(t, begun).end <- errDown
	assert.Equal(t, webhook.ResultFailed, next(t, made).Result)
	d.exec(t, "TRUNCATE river_job RESTART IDENTITY")
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, engine.Stats{}, stats)
	acceptNew(t, inbox, fresh)
	handleAll(t, begun, fresh)
	acceptAgain(t, inbox, dead)
	d.allEnd(t)
}

// TestRiverKeepsDeadLetters reads the configuration of River's client, because River deletes jobs
// after hours.
func TestRiverKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	inbox, _ := newDatabase(t).start(t, receivertest.Succeed, nil)
	config := reflect.ValueOf(inbox.River()).Elem().FieldByName("config").Elem()
	for name, want := range map[string]time.Duration{
		"CancelledJobRetentionPeriod": -1, "DiscardedJobRetentionPeriod": -1, "CompletedJobRetentionPeriod": time.Minute, "JobTimeout": -1,
	} {
		assert.EqualValues(t, want, config.FieldByName(name).Int(), name)
	}
}

// TestAcceptReplacesTextsInvalidInJSON accepts an event with texts that jsonb cannot store.
func TestAcceptReplacesTextsInvalidInJSON(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	odd, stored := "o\x00d\xffd", "o\uFFFDd\uFFFDd"
	inbox, made := d.start(t, func(context.Context, events.Event) error { return errBad }, func(c *riverinbox.Config) {
		c.Work.Order = func(webhook.Delivery, events.Event) webhook.OrderingKey { return webhook.OrderingKey(odd) }
	})
	event := in("a", 1)
	event.Type, event.ClinicID = events.Type(odd), odd
	acceptNew(t, inbox, event)
	assert.Equal(t, webhook.ResultDead, next(t, made).Result)
	letters, err := inbox.List(t.Context(), engine.Filter{Type: events.Type(odd), ClinicID: odd}, engine.Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, letters, 1)
	for _, text := range []string{string(letters[0].Type), letters[0].ClinicID, string(letters[0].OrderingKey)} {
		assert.Equal(t, stored, text)
	}
}

// TestRetriesUseDatabaseClock sets the clock of the database one hour behind the process.
func TestRetriesUseDatabaseClock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, ahead := d.wrongClock(t)
	ahead("-1 hour")
	handle, begun := calls(t)
	c := d.config(t, handle).Still()
	c.Work.Retry.BackOff = time.Millisecond
	event := in(free, 1)
	acceptNew(t, open(t, pool, c), event)
	next(t, begun).end <- errDown
	handleAll(t, begun, event)
}

// anyEvent contains the arguments of a job, for a plain client of River.
type anyEvent struct{}

func (anyEvent) Kind() string { return "dispensary_webhook" }

// TestEventsWakeRiver works accepted events with a client of River that polls every hour.
func TestEventsWakeRiver(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	workers, worked := river.NewWorkers(), make(chan int64, 10)
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[anyEvent]) error {
		worked <- job.ID
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(d.pool(t)), &river.Config{
		Schema: d.schema, Workers: workers, Queues: map[string]river.QueueConfig{"dispensary_webhooks": {MaxWorkers: 5}},
		FetchCooldown: time.Millisecond, FetchPollInterval: time.Hour,
	})
	require.NoError(t, err)
	require.NoError(t, client.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() { assert.NoError(t, client.Stop(context.Background())) })
	for n := range 5 { // the client polls once at its start
		event := in(free, n)
		acceptNew(t, inbox, event)
		require.Equal(t, d.job(t, event), next(t, worked))
	}
}

// TestTransactionsSendNoNotification requires that accepts, outcomes and replays do not wait
// for the lock that PostgreSQL takes to commit a notification.
func TestTransactionsSendNoNotification(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox := d.idle(t, d.config(t, receivertest.Succeed))
	conn, err := d.reader(t).Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	channel := d.schema + ".river_insert"
	_, err = conn.Exec(t.Context(), `LISTEN "`+channel+`"`)
	require.NoError(t, err)
	done, dead := in(free, 1), in(free, 2)
	for _, event := range []webhook.Delivery{done, dead} {
		require.NoError(t, pgx.BeginFunc(t.Context(), d.reader(t), func(tx pgx.Tx) error {
			_, err := inbox.AcceptIn(t.Context(), tx, event)
			return err
		}))
	}
	d.exec(t, "UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now()")
	d.exec(t, "SELECT inbox_end($1)", d.handled(t, done))
	d.exec(t, "SELECT inbox_end($1)", strings.Replace(d.handled(t, dead), "completed", "cancelled", 1))
	d.exec(t, "SELECT inbox_replay(ARRAY[$1::bigint])", d.job(t, dead))
	d.becomes(t, "available", dead)
	d.exec(t, "SELECT pg_notify($1, 'end')", channel)
	said, err := conn.Conn().WaitForNotification(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "end", said.Payload)
}

func TestMigrateKeepsRiverIndexes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	inbox, _ := d.start(t, receivertest.Succeed, nil)
	const indexes = `SELECT relname FROM pg_class JOIN pg_am a ON a.oid = relam
		WHERE relnamespace = to_regnamespace($1) AND relkind = 'i' AND (amname = 'gin') = $2`
	there := texts(t, d, indexes, d.schema, false)
	names := reflect.ValueOf(inbox.River()).Elem().FieldByName("config").Elem().FieldByName("ReindexerIndexNames")
	require.Positive(t, names.Len())
	for n := range names.Len() {
		assert.Contains(t, there, names.Index(n).String())
	}
	assert.Empty(t, texts(t, d, indexes, d.schema, true))
}

// TestBadEventFailsAlone accepts many events concurrently. The database rejects one of them,
// and another replica has locked the ordering key of another one in a transaction.
func TestBadEventFailsAlone(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.config(t, receivertest.Succeed)
	ordered(&c)
	inbox := d.idle(t, c)
	d.exec(t, "ALTER TABLE river_job ADD CHECK (metadata->>'clinic' <> 'bad')")
	tx, err := d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = inbox.AcceptIn(t.Context(), tx, in("a", 1))
	require.NoError(t, err)
	send := func(event webhook.Delivery) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := inbox.Accept(t.Context(), event)
			done <- err
		}()
		return done
	}
	bad := in("b", 3)
	bad.ClinicID = "bad"
	ofLine, rejected := send(in("a", 2)), send(bad)
	var others sync.WaitGroup
	for n := range 50 {
		others.Go(func() { assert.NoError(t, next(t, send(in(fmt.Sprint("key_", n), n)))) })
	}
	others.Wait()
	require.ErrorContains(t, next(t, rejected), "23514")
	require.NoError(t, next(t, ofLine))
	require.NoError(t, tx.Commit(t.Context()))
	assert.Equal(t, 52, count(t, d, "SELECT count(*) FROM river_job"))
}
