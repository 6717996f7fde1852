package riverinbox_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/sqltest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	script, err := riverinbox.Schema(riverinbox.Tables{})
	require.NoError(t, err)
	sqltest.RunSchema(t, sqltest.Store{
		Driver: "pgx", Script: script,
		Create: func(ctx context.Context, _ *sql.DB, name string) error {
			pool, err := pgxpool.New(ctx, name)
			if err != nil {
				return err
			}
			defer pool.Close()
			return riverinbox.Migrate(ctx, pool, riverinbox.Tables{})
		},
	})
}

// TestMigrateRiverAtOnce starts several replicas on an empty schema, at a strict isolation level.
func TestMigrateRiverAtOnce(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.address += "&default_transaction_isolation=serializable"
	var group sync.WaitGroup
	for range 4 {
		pool := d.pool(t)
		group.Go(func() {
			for range 2 {
				assert.NoError(t, riverinbox.MigrateRiver(context.Background(), pool, d.tables()))
			}
		})
	}
	group.Wait()
}

// TestOpenWithoutRightToCreate opens tables as a role that must not create any. Their SQL was
// printed and applied by hand.
func TestOpenWithoutRightToCreate(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	text, err := riverinbox.Schema(d.tables())
	require.NoError(t, err)
	steps, err := riverinbox.SchemaRiver(d.tables())
	require.NoError(t, err)
	for _, one := range append(steps, text) {
		d.exec(t, one)
	}
	limited := d
	limited.address = sqltest.Limited(t, "pgx", d.address)
	d.exec(t, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+d.schema+" TO PUBLIC")
	inbox, made := limited.start(t, receivertest.Succeed, nil)
	receivertest.Accept(t, inbox)
	assert.Equal(t, webhook.ResultHandled, (<-made).Result)
	assert.Equal(t, 1, count(t, d, "SELECT count(*) FROM dispensary_inbox WHERE state = 3"), "there is no partition of the ledger")

	text, err = riverinbox.Schema(riverinbox.Tables{Schema: `x"; --`})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	assert.Empty(t, text)
	_, err = riverinbox.SchemaRiver(riverinbox.Tables{River: `x"; --`})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
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

func TestNewNeedsTables(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	pool := d.pool(t)
	_, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	var missing *riverinbox.SchemaError
	require.ErrorAs(t, err, &missing)
	assert.Contains(t, missing.Table, "dispensary_inbox")
	require.NoError(t, riverinbox.Migrate(t.Context(), pool, d.tables()))
	inbox, err := riverinbox.New(t.Context(), pool, d.config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
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
