package riverinbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// job returns the one job of a kind there is, once it is in a state.
func job(t *testing.T, d database, kind string, state rivertype.JobState) *rivertype.JobRow {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(d.reader(t)), &river.Config{})
	require.NoError(t, err)
	var row *rivertype.JobRow
	require.Eventually(t, func() bool {
		jobs, err := client.JobList(t.Context(), river.NewJobListParams().Kinds(kind).States(state))
		if err != nil || len(jobs.Jobs) != 1 {
			return false
		}
		row = jobs.Jobs[0]
		return true
	}, time.Minute, 10*time.Millisecond, "no job is %s", state)
	return row
}

// TestJobsTellWhatHappened looks at what River, and so its UI, knows of events
// that are done, failed and given up.
func TestJobsTellWhatHappened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      error
		attempts int
		state    rivertype.JobState
		told     string
	}{
		"done":      {nil, 3, rivertype.JobStateCompleted, ""},
		"failed":    {errors.New(receivertest.Canary), 3, rivertype.JobStateRetryable, "attempt 1 failed: unnamed error: see webhook.WithReason"},
		"last":      {errors.New(receivertest.Canary), 1, rivertype.JobStateDiscarded, "attempt 1 dead: unnamed error: see webhook.WithReason"},
		"permanent": {webhook.Permanent(errors.New(receivertest.Canary)), 3, rivertype.JobStateCancelled, "attempt 1 dead: permanent: unnamed error: see webhook.WithReason"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			inbox, _ := d.start(t, func(context.Context, events.Event) error { return c.err }, func(config *riverinbox.Config) {
				config.Work.Retry = webhook.RetryPolicy{MaxAttempts: c.attempts, BackOff: time.Hour}
				config.Work.Order = webhook.ByObject
			})
			event := receivertest.Accept(t, inbox)
			row := job(t, d, "dispensary_webhook", c.state)
			read, err := event.Event()
			require.NoError(t, err)
			assert.JSONEq(t, fmt.Sprintf(`{"subject":%q}`, webhook.ByObject(event, read)), string(row.EncodedArgs))
			assert.Equal(t, 1, row.Attempt)
			assert.NotContains(t, string(dump(t, d)), receivertest.Canary)
			if c.told == "" {
				assert.Empty(t, row.Errors)
				return
			}
			require.Len(t, row.Errors, 1)
			assert.Contains(t, row.Errors[0].Error, event.Key.String()+": "+c.told)
			if c.state == rivertype.JobStateRetryable {
				assert.WithinRange(t, row.ScheduledAt, time.Now().Add(29*time.Minute), time.Now().Add(time.Hour))
			}
		})
	}
}

// TestClientOfTheProgram has a client work the events that is the program's own,
// beside its jobs, and a process that only accepts.
func TestClientOfTheProgram(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	ctx := t.Context()
	pool := d.pool(t)
	d.migrate(t, pool)
	config := d.config(t, func(ctx context.Context, _ events.Event) error {
		_, err := river.ClientFromContext[pgx.Tx](ctx).Insert(ctx, byHandArgs{"from a handler"}, nil)
		return err
	})
	made := receivertest.Observe(&config.Work)
	worker, err := riverinbox.New(ctx, pool, config)
	require.NoError(t, err)
	web, err := riverinbox.New(ctx, d.pool(t), config)
	require.NoError(t, err)

	own := make(chan string, 10)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[byHandArgs]) error {
		own <- job.Args.Key
		return nil
	}))
	clientConfig := &river.Config{Schema: d.schema, Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}}}
	quick(clientConfig)
	require.NoError(t, worker.AddTo(clientConfig))
	assert.Equal(t, webhook.DefaultWorkers, clientConfig.Queues[riverinbox.Queue].MaxWorkers)
	require.Error(t, worker.AddTo(clientConfig), "a second time")
	require.Error(t, worker.AddTo(&river.Config{Schema: "elsewhere"}))
	client, err := river.NewClient(riverpgxv5.New(pool), clientConfig)
	require.NoError(t, err)
	require.NoError(t, client.Start(context.Background()))

	receivertest.Accept(t, web)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Equal(t, "from a handler", <-own)
	require.NoError(t, client.Stop(context.Background()))
	require.NoError(t, worker.Close(ctx))
	require.NoError(t, web.Close(ctx))
}

// TestPollOnly does without LISTEN and without prepared statements, as behind
// PgBouncer.
func TestPollOnly(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	poolConfig := d.pool(t).Config()
	poolConfig.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), poolConfig)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	config := d.config(t, func(ctx context.Context, _ events.Event) error {
		if webhook.HandlingFrom(ctx).Attempt == 1 {
			return errors.New(receivertest.Canary)
		}
		return nil
	})
	config.Work.Order, config.Work.Stale, config.Work.Retry.MaxAttempts = webhook.ByObject, webhook.StaleReport, 1
	config.River = func(c *river.Config) {
		quick(c)
		c.PollOnly = true
	}
	made := receivertest.Observe(&config.Work)
	inbox := open(t, pool, config)
	event := receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultDead, (<-made).Result)
	for letter, err := range engine.All(t.Context(), inbox, engine.Filter{}) {
		require.NoError(t, err)
		assert.Equal(t, event.Key, letter.Key)
		letter, err = inbox.Open(t.Context(), letter.Key)
		require.NoError(t, err)
		assert.Equal(t, receivertest.Canary, letter.Err.Error())
	}
	missing, err := inbox.Missing(t.Context(), []webhook.Key{event.Key, receivertest.NewDelivery().Key})
	require.NoError(t, err)
	assert.Len(t, missing, 1)
	require.NoError(t, inbox.Purge(t.Context()))
}

// TestClientThatIsStoppedWhileItClaims holds that a claim which is being made when its
// worker is stopped is given back, and does not count as an attempt that was lost.
func TestClientThatIsStoppedWhileItClaims(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	d.migrate(t, pool)
	inbox, err := riverinbox.New(t.Context(), pool, d.config(t, func(ctx context.Context, _ events.Event) error { return ctx.Err() }))
	require.NoError(t, err)
	receivertest.Accept(t, inbox)
	clientConfig := &river.Config{Schema: d.schema}
	quick(clientConfig)
	require.NoError(t, inbox.AddTo(clientConfig))
	client, err := river.NewClient(riverpgxv5.New(pool), clientConfig)
	require.NoError(t, err)

	blocking, err := d.reader(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = blocking.Exec(t.Context(), "LOCK TABLE dispensary_inbox_lines IN EXCLUSIVE MODE")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	require.NoError(t, client.Start(ctx))
	require.Eventually(t, func() bool {
		return count(t, d, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'WITH first%' || $1 || '%'", d.schema) == 1
	}, time.Minute, 10*time.Millisecond)
	stop()
	require.NoError(t, blocking.Rollback(t.Context()))
	<-client.Stopped()
	require.NoError(t, inbox.Close(t.Context()))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox_lines"))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE state = 1 AND attempts = 0"))
}

// TestObserverThatEndsItsGoroutine holds that River's worker survives it.
func TestObserverThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	c := d.config(t, receivertest.Succeed)
	c.Work.Workers = 1
	made := make(chan webhook.Attempt, 100)
	c.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) {
		made <- a
		runtime.Goexit()
	}
	inbox := open(t, d.pool(t), c)
	for range 5 {
		receivertest.Accept(t, inbox)
	}
	for range 5 {
		assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	}
}
