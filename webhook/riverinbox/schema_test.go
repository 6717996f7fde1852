package riverinbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

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
	config := third.config(t, receivertest.Succeed)
	config.Tables = riverinbox.Tables{Schema: ours.schema, River: rivers.schema}
	made := observed(&config)
	inbox := open(t, third.pool(t), config)
	accept(t, inbox)
	assert.Equal(t, 1, (<-made).Number)
	_, err := inbox.Missing(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, inbox.Purge(t.Context()))
	assert.Equal(t, 1, count(t, ours, "SELECT count(*) FROM dispensary_inbox"))
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
	for version, want := range []error{0: riverinbox.ErrSchema, 1: nil, 2: nil} {
		_, err = pool.Exec(t.Context(), "UPDATE dispensary_inbox_schema SET version = $1", version)
		require.NoError(t, err)
		inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
		require.ErrorIs(t, err, want)
		if want == nil {
			require.NoError(t, inbox.Close(t.Context()))
		}
	}
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.tables()), "newer tables are left alone")
	assert.Equal(t, 2, count(t, d, "SELECT version FROM dispensary_inbox_schema"))
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
