package riverinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestMigrateCreatesTables tests the inbox's own tables. River's tables are created first.
func TestMigrateCreatesTables(t *testing.T) {
	t.Parallel()
	steps, err := riverinbox.Schema("anywhere")
	require.NoError(t, err)
	for n := range steps {
		steps[n] = strings.ReplaceAll(steps[n], `"anywhere".`, "") // the search path names the schema
	}
	own := len(steps) - 1
	sqltest.RunSchema(t, sqltest.Store{
		Driver: "pgx", Script: steps[own],
		ScriptIn: func(schema string) string {
			steps, err := riverinbox.Schema(schema)
			require.NoError(t, err)
			return steps[own]
		},
		Before: func(t *testing.T, db *sql.DB) {
			for _, step := range steps[1:own] {
				_, err := db.ExecContext(t.Context(), step)
				require.NoError(t, err)
			}
		},
		Create: func(ctx context.Context, _ *sql.DB, name string) error {
			pool, err := pgxpool.New(ctx, name)
			if err != nil {
				return err
			}
			defer pool.Close()
			return riverinbox.Migrate(ctx, pool, pool.Config().ConnConfig.RuntimeParams["search_path"])
		},
	})
}

// A restore or a tool may lose a trigger, or keep the function of another release.
func TestMigrateMendsFunctions(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	migrate := func() error { return riverinbox.Migrate(t.Context(), d.pool(t), d.schema) }
	require.NoError(t, migrate())
	for _, change := range []string{
		"CREATE OR REPLACE FUNCTION inbox_end(outcomes jsonb) RETURNS SETOF integer LANGUAGE plpgsql AS $$ BEGIN RETURN; END $$",
		"DROP FUNCTION inbox_accept",
		"DROP TRIGGER inbox_ended ON river_job",
		"ALTER TABLE river_job DISABLE TRIGGER inbox_ended",
	} {
		d.exec(t, change)
		limited := d
		limited.address = sqltest.Limited(t, "pgx", d.address)
		err := riverinbox.Migrate(t.Context(), limited.pool(t), d.schema)
		var e *api.SchemaError
		require.ErrorAs(t, err, &e, change)
		assert.True(t, e.Changed, change)
		require.NoError(t, migrate(), change)
		require.NoError(t, riverinbox.Migrate(t.Context(), limited.pool(t), d.schema), "nothing is left to change")
	}
}

// TestOpenNeedsNoCreatePrivilege applies the SQL by hand, and opens the inbox with a role that
// must not create tables.
func TestOpenNeedsNoCreatePrivilege(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	steps, err := riverinbox.Schema(d.schema)
	require.NoError(t, err)
	for _, step := range steps {
		d.exec(t, step)
	}
	limited := d
	limited.address = sqltest.Limited(t, "pgx", d.address)
	d.exec(t, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+d.schema+" TO PUBLIC")
	inbox, made := limited.start(t, receivertest.Succeed, func(c *riverinbox.Config) {
		c.Work.Order, c.Work.Stale = webhook.ByObject, webhook.StalePolicyReport
	})
	event := receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	acceptAgain(t, inbox, event)
	require.NoError(t, inbox.Purge(t.Context()))
}

// TestOpenSelectsSchema creates the configured schema, whatever the search path.
func TestOpenSelectsSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	own := d.schema + "_Own"
	t.Cleanup(func() { d.exec(t, `DROP SCHEMA "`+own+`" CASCADE`) })
	inbox, made := d.start(t, receivertest.Succeed, func(c *riverinbox.Config) { c.Schema, c.Work.Order = own, webhook.ByObject })
	event := receivertest.Accept(t, inbox)
	assert.Equal(t, 1, (<-made).Number)
	require.NoError(t, inbox.Purge(t.Context()))
	acceptAgain(t, inbox, event)
	assert.Equal(t, 1, count(t, d, `SELECT count(*) FROM "`+own+`".inbox_ledger`))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM pg_tables WHERE schemaname = $1", d.schema))
}

// TestNewDefaultsToOwnSchema creates nothing, because all tests share a database.
func TestNewDefaultsToOwnSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	config := d.config(t, receivertest.Succeed)
	config.Schema = ""
	assert.Equal(t, "dispensary_inbox", config.SchemaName())
}

// fieldOf returns the field in an argument error.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var rejected *api.ArgumentError
	require.ErrorAs(t, err, &rejected)
	return rejected.Field
}

func TestNewRequiresTables(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, config := d.pool(t), d.config(t, receivertest.Succeed)
	_, err := riverinbox.New(t.Context(), pool, config)
	var wrong *api.SchemaError
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, wrong.Table, "inbox_schema")
	require.ErrorContains(t, err, "call riverinbox.Migrate")
}

// TestMigrateReplacesOlderSchema replaces a function, and drops a function and a trigger.
func TestMigrateReplacesOlderSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, config := d.pool(t), d.config(t, func(context.Context, events.Event) error { return errBad })
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.schema))
	for _, statement := range []string{
		"CREATE OR REPLACE FUNCTION inbox_end(outcomes jsonb) RETURNS SETOF integer LANGUAGE plpgsql AS 'BEGIN RETURN; END'",
		"DROP TRIGGER inbox_ended ON river_job", "DROP FUNCTION inbox_accept", "UPDATE inbox_schema SET version = 0, oldest = 0",
	} {
		d.exec(t, statement)
	}
	_, err := riverinbox.New(t.Context(), pool, config)
	var e *api.SchemaError
	require.ErrorAs(t, err, &e)
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.schema))
	made := receivertest.Observe(&config.Work)
	inbox := open(t, pool, config)
	acceptNew(t, inbox, in(free, 1))
	assert.Equal(t, webhook.ResultDead, next(t, made).Result)
	stats, err := inbox.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, engine.Stats{Dead: 1}, stats)
}

func TestOpenRejectsNewerSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, config := d.pool(t), d.config(t, receivertest.Succeed)
	require.NoError(t, open(t, pool, config.Next(1)).Close(t.Context()))
	require.NoError(t, open(t, pool, config).Close(t.Context()), "the newer schema admits this release")
	assert.Equal(t, 2, count(t, d, "SELECT version FROM inbox_schema"))
	d.exec(t, "UPDATE inbox_schema SET oldest = 2")
	_, err := riverinbox.Open(t.Context(), pool, config)
	var e *api.SchemaError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, api.SchemaError{Table: e.Table, Found: 2, Want: 1, Oldest: 2, Migrate: "riverinbox.Migrate"}, *e)
}

// TestRollingDeploymentKeepsEvents migrates the schema and replaces all processes under load.
func TestRollingDeploymentKeepsEvents(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var mu sync.Mutex
	places, handled := map[string]int{}, map[string][]int{} // by event ID and ordering key
	config := d.config(t, func(ctx context.Context, _ events.Event) error {
		h := webhook.HandlingFrom(ctx)
		mu.Lock()
		defer mu.Unlock()
		handled[h.Key.IntegrationID] = append(handled[h.Key.IntegrationID], places[h.Key.EventID])
		return nil
	})
	ordered(&config)
	start := func(c riverinbox.Config) *riverinbox.Inbox {
		return open(t, d.pool(t, func(p *pgxpool.Config) { p.MaxConns = 7 }), c)
	}
	var old, fresh []*riverinbox.Inbox
	for range 3 {
		old = append(old, start(config))
	}
	const keys, each = 4, 60
	var at atomic.Pointer[[]*riverinbox.Inbox]
	at.Store(&old)
	var sent atomic.Int64
	var senders sync.WaitGroup
	for key := range keys {
		senders.Go(func() {
			for n := range each {
				event := in(fmt.Sprint("key_", key), n)
				mu.Lock()
				places[event.Key.EventID] = n
				mu.Unlock()
				eventually(t, func() bool {
					inboxes := *at.Load()
					_, err := inboxes[n%len(inboxes)].Accept(context.WithoutCancel(t.Context()), event)
					return err == nil
				}, "an event is not accepted")
				sent.Add(1)
			}
		})
	}
	wait := func(n int64) { eventually(t, func() bool { return sent.Load() >= n }, "events are not accepted") }
	wait(keys * each / 4)
	for range 3 {
		fresh = append(fresh, start(config.Next(1)))
	}
	all := slices.Concat(old, fresh)
	at.Store(&all)
	wait(keys * each / 2)
	at.Store(&fresh)
	for _, inbox := range old {
		require.NoError(t, inbox.Close(t.Context()))
	}
	senders.Wait()
	d.allEnd(t)
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, handled, keys)
	for key, times := range handled {
		assert.Len(t, times, each, key)
		assert.True(t, slices.IsSorted(times), "%s: %v", key, times)
	}
	assert.Equal(t, 2, count(t, d, "SELECT version FROM inbox_schema"))
	assert.Positive(t, count(t, d, "SELECT count(*) FROM pg_proc WHERE pronamespace = to_regnamespace($1) AND prosrc LIKE '%next release%'", d.schema))
}

func TestOpenRejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	rejected := func(pool *pgxpool.Pool, field string, change func(*riverinbox.Config)) {
		t.Helper()
		config := d.config(t, receivertest.Succeed)
		change(&config)
		_, err := riverinbox.Open(t.Context(), pool, config)
		assert.Equal(t, field, fieldOf(t, err))
	}
	rejected(nil, "pool", func(*riverinbox.Config) {})
	rejected(pool, "pool", func(c *riverinbox.Config) { c.Work.Workers = 10 })
	rejected(pool, "riverinbox.Config.Seal", func(c *riverinbox.Config) { c.Seal = nil })
	rejected(pool, "webhook.Work.Handle", func(c *riverinbox.Config) { c.Work.Handle = nil })
	rejected(pool, "riverinbox.Config.TakeOver", func(c *riverinbox.Config) { c.TakeOver = time.Second - 1 })
	rejected(pool, "riverinbox.Config.Work.Retry.MaxAttempts", func(c *riverinbox.Config) { c.Work.Retry.MaxAttempts = 1<<15 - 1 })
	const field = "riverinbox.Config.Schema"
	for _, name := range []string{`x"; --`, "1st", "a b", strings.Repeat("x", 47)} {
		rejected(pool, field, func(c *riverinbox.Config) { c.Schema = name })
		_, err := riverinbox.Schema(name)
		assert.Equal(t, field, fieldOf(t, err))
		assert.Equal(t, field, fieldOf(t, riverinbox.Migrate(t.Context(), pool, name)))
	}
}
