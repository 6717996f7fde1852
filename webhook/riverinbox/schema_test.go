package riverinbox_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/webhook"
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
			return riverinbox.Migrate(ctx, pool, "")
		},
	})
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
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM inbox_undated"), "the ledger has no partition")

	owner := d.idle(t, d.config(t, receivertest.Succeed))
	require.NoError(t, owner.KeepDays(t.Context()))
	acceptAgain(t, inbox, event)
	acceptAgain(t, owner, event)
	d.exec(t, "UPDATE inbox_undated SET accepted_at = now() - interval '32 days'")
	require.NoError(t, inbox.KeepDays(t.Context()))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM inbox_undated"))
}

// TestOpenSelectsSchema creates the configured schema, and finds the schema of the search
// path.
func TestOpenSelectsSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	own := d.schema + "_Own"
	t.Cleanup(func() { d.exec(t, `DROP SCHEMA "`+own+`" CASCADE`) })
	inbox, made := d.start(t, receivertest.Succeed, func(c *riverinbox.Config) { c.Schema, c.Work.Order = own, webhook.ByObject })
	event := receivertest.Accept(t, inbox)
	assert.Equal(t, 1, (<-made).Number)
	require.NoError(t, inbox.KeepDays(t.Context()))
	acceptAgain(t, inbox, event)
	assert.Equal(t, 1, count(t, d, `SELECT count(*) FROM "`+own+`".inbox_ledger`))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM pg_tables WHERE schemaname = $1", d.schema))

	inbox, made = d.start(t, receivertest.Succeed, func(c *riverinbox.Config) { c.Schema = "" })
	receivertest.Accept(t, inbox)
	assert.Equal(t, 1, (<-made).Number)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM inbox_ledger"))

	astray := d
	astray.address = strings.Replace(d.address, "search_path=", "search_path=no_", 1)
	config := d.config(t, receivertest.Succeed)
	config.Schema = ""
	_, err := riverinbox.Open(t.Context(), astray.pool(t), config)
	assert.Equal(t, "riverinbox.Config.Schema", fieldOf(t, err))
}

// fieldOf returns the field in an argument error.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var refused *api.ArgumentError
	require.ErrorAs(t, err, &refused)
	return refused.Field
}

func TestNewRequiresTables(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool, config := d.pool(t), d.config(t, receivertest.Succeed)
	_, err := riverinbox.New(t.Context(), pool, config)
	var wrong *api.SchemaError
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, wrong.Table, "inbox_ledger")
	require.NoError(t, d.idle(t, config).Close(t.Context()))
	d.exec(t, "ALTER TABLE inbox_order DROP COLUMN head CASCADE")
	_, err = riverinbox.Open(t.Context(), pool, config)
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "head", wrong.Column)
}

func TestOpenRejectsInvalidArguments(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	refused := func(pool *pgxpool.Pool, field string, change func(*riverinbox.Config)) {
		t.Helper()
		config := d.config(t, receivertest.Succeed)
		change(&config)
		_, err := riverinbox.Open(t.Context(), pool, config)
		assert.Equal(t, field, fieldOf(t, err))
	}
	refused(nil, "pool", func(*riverinbox.Config) {})
	refused(pool, "pool", func(c *riverinbox.Config) { c.Work.Workers = 10 })
	refused(pool, "riverinbox.Config.Seal", func(c *riverinbox.Config) { c.Seal = nil })
	refused(pool, "webhook.Work.Handle", func(c *riverinbox.Config) { c.Work.Handle = nil })
	refused(pool, "riverinbox.Config.TakeOver", func(c *riverinbox.Config) { c.TakeOver = time.Second - 1 })
	refused(pool, "riverinbox.Config.Work.Retry.MaxAttempts", func(c *riverinbox.Config) { c.Work.Retry.MaxAttempts = 1<<15 - 1 })
	const field = "riverinbox.Config.Schema"
	for _, name := range []string{`x"; --`, "1st", "a b", strings.Repeat("x", 47)} {
		refused(pool, field, func(c *riverinbox.Config) { c.Schema = name })
		_, err := riverinbox.Schema(name)
		assert.Equal(t, field, fieldOf(t, err))
		assert.Equal(t, field, fieldOf(t, riverinbox.Migrate(t.Context(), pool, name)))
	}
}
