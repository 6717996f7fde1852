package riverinbox_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

func TestMigrateRunsAgain(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	var group sync.WaitGroup
	for range 4 {
		pool := d.pool(t)
		group.Go(func() {
			for range 3 {
				assert.NoError(t, riverinbox.Migrate(context.Background(), pool, d.tables()))
				assert.NoError(t, riverinbox.MigrateRiver(context.Background(), pool, d.tables()))
			}
		})
	}
	group.Wait()
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox_schema"))
	assert.Zero(t, count(t, d, `SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
		WHERE nspname = $1 AND relname NOT LIKE 'dispensary\_inbox%' AND relname NOT LIKE 'river\_%'`, d.schema))
}

func TestMigrateDoesEverythingOrNothing(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	d.exec(t, "CREATE TABLE dispensary_inbox_checkpoints (mine text)")
	require.Error(t, riverinbox.Migrate(t.Context(), pool, d.tables()))
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM pg_tables WHERE schemaname = $1", d.schema))
	d.exec(t, "DROP TABLE dispensary_inbox_checkpoints")
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.tables()))
}

// TestTwoSchemas keeps the tables of the inbox apart from those of River, and
// neither in the search path.
func TestTwoSchemas(t *testing.T) {
	t.Parallel()
	ours, rivers, third := newDatabase(t), newSchema(t), newSchema(t)
	inbox, made := third.start(t, receivertest.Succeed, func(c *riverinbox.Config) {
		c.Tables = riverinbox.Tables{Schema: ours.schema, River: rivers.schema}
	})
	receivertest.Accept(t, inbox)
	assert.Equal(t, 1, (<-made).Number)
	_, err := inbox.Missing(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, inbox.Purge(t.Context()))
	assert.Len(t, known(t, ours), 1)
	assert.Equal(t, 1, count(t, rivers, "SELECT count(*) FROM river_job"))
	assert.Zero(t, count(t, third, "SELECT count(*) FROM pg_tables WHERE schemaname = $1", third.schema))
}

func TestNewWantsTheTablesOfItsVersion(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	_, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	require.ErrorIs(t, err, riverinbox.ErrSchema)
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.tables()))
	for version, want := range []error{0: riverinbox.ErrSchema, 1: riverinbox.ErrSchema, 2: nil, 3: nil} {
		_, err = pool.Exec(t.Context(), "UPDATE dispensary_inbox_schema SET version = $1", version)
		require.NoError(t, err)
		inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
		require.ErrorIs(t, err, want)
		if want == nil {
			require.NoError(t, inbox.Close(t.Context()))
		}
	}
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.tables()), "newer tables are left alone")
	assert.Equal(t, 3, count(t, d, "SELECT version FROM dispensary_inbox_schema"))
	require.NoError(t, pool.Ping(t.Context()), "the pool is the program's")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	for name, c := range map[string]struct {
		change func(*riverinbox.Config)
		field  string
	}{
		"no seal":         {func(c *riverinbox.Config) { c.Seal = nil }, ""},
		"no handler":      {func(c *riverinbox.Config) { c.Work.Handle = nil }, ""},
		"short retention": {func(c *riverinbox.Config) { c.Retention = engine.DefaultRetention / 2 }, "riverinbox.Config.Retention"},
		"short lease":     {func(c *riverinbox.Config) { c.Lease = time.Millisecond }, "riverinbox.Config.Lease"},
		"bad schema":      {func(c *riverinbox.Config) { c.Tables.Schema = `x"; --` }, "riverinbox.Tables.Schema"},
		"bad River":       {func(c *riverinbox.Config) { c.Tables.River = "1st" }, "riverinbox.Tables.River"},
		"bad queue":       {func(c *riverinbox.Config) { c.Queue = "a queue" }, ""},
	} {
		config := d.config(t, receivertest.Succeed)
		c.change(&config)
		_, err := riverinbox.Open(t.Context(), pool, config)
		require.Error(t, err, name)
		if c.field != "" {
			var refused *api.ArgumentError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, c.field, refused.Field)
		}
	}
	_, err := riverinbox.Open(t.Context(), nil, d.config(t, receivertest.Succeed))
	require.ErrorContains(t, err, "pool is nil")
	few := pool.Config()
	few.MaxConns = 3
	small, err := pgxpool.NewWithConfig(t.Context(), few)
	require.NoError(t, err)
	t.Cleanup(small.Close)
	_, err = riverinbox.Open(t.Context(), small, d.config(t, receivertest.Succeed))
	require.ErrorContains(t, err, "3 connections")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = riverinbox.Open(ctx, pool, d.config(t, receivertest.Succeed))
	require.ErrorIs(t, err, context.Canceled)
	_, err = pool.Exec(t.Context(), "DROP TABLE river_job")
	require.NoError(t, err)
	inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	require.NoError(t, err)
	_, err = inbox.Accept(t.Context(), receivertest.NewDelivery())
	require.Error(t, err, "without a job there is no event")
	require.NoError(t, inbox.Close(t.Context()))
	assert.Zero(t, count(t, d, "SELECT count(*) FROM dispensary_inbox"))
}

// TestSchemaIsWhatMigrateMakes applies the texts to an empty schema, and finds what
// the migrations make in another.
func TestSchemaIsWhatMigrateMakes(t *testing.T) {
	t.Parallel()
	migrated, applied := newDatabase(t), newSchema(t)
	require.NoError(t, riverinbox.Migrate(t.Context(), migrated.pool(t), migrated.tables()))
	require.NoError(t, riverinbox.MigrateRiver(t.Context(), migrated.pool(t), migrated.tables()))
	text, err := riverinbox.Schema(applied.tables())
	require.NoError(t, err)
	steps, err := riverinbox.SchemaRiver(applied.tables())
	require.NoError(t, err)
	for _, one := range append(steps, text) {
		applied.exec(t, one)
	}
	want := catalog(t, migrated)
	assert.Greater(t, len(want), 100, "columns, indexes, constraints, types, functions and versions")
	assert.Equal(t, want, catalog(t, applied))

	inbox := open(t, applied.pool(t), applied.config(t, receivertest.Succeed))
	receivertest.Accept(t, inbox)

	_, err = riverinbox.Schema(riverinbox.Tables{Schema: `x"; --`})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	_, err = riverinbox.SchemaRiver(riverinbox.Tables{River: `x"; --`})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
}

// catalog describes a schema as the database sees it, without its name.
func catalog(t *testing.T, d database) []string {
	t.Helper()
	rows, err := d.reader(t).Query(t.Context(), `
		SELECT concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attstorage, a.attidentity,
				pg_get_expr(f.adbin, f.adrelid), collname)
			FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef f ON (f.adrelid, f.adnum) = (a.attrelid, a.attnum)
			LEFT JOIN pg_collation l ON l.oid = a.attcollation
			WHERE c.relnamespace = current_schema()::text::regnamespace AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL SELECT concat_ws(' ', relname, relkind, relpersistence, reloptions) FROM pg_class WHERE relnamespace = current_schema()::text::regnamespace
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
		UNION ALL SELECT concat_ws(' ', conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE connamespace = current_schema()::text::regnamespace
		UNION ALL SELECT concat_ws(' ', typname, enumsortorder, enumlabel) FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid WHERE typnamespace = current_schema()::text::regnamespace
		UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = current_schema()::text::regnamespace
		UNION ALL SELECT concat('version ', version) FROM dispensary_inbox_schema
		UNION ALL SELECT concat_ws(' ', 'River', line, version) FROM river_migration
		ORDER BY 1`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, d.schema, "{schema}")
	}
	return lines
}
