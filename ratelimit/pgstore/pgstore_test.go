package pgstore_test

import (
	"context"
	"database/sql"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/ratelimit/pgstore"
)

func open(t *testing.T) *pgstore.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgrestest.Schema(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool)
	require.NoError(t, err)
	return store
}

func TestStorePassesConformanceSuite(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		store := open(t)
		require.NoError(t, store.Migrate(t.Context()))
		return store
	})
}

// PgBouncer in transaction mode has no prepared statements.
func TestStoreNeedsNoPreparedStatements(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		config, err := pgxpool.ParseConfig(postgrestest.Schema(t))
		require.NoError(t, err)
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		store, err := pgstore.New(pool)
		require.NoError(t, err)
		require.NoError(t, store.Migrate(t.Context()))
		return store
	})
}

// The table has one row per request of the limit and one for the pause.
func TestTableStaysSmall(t *testing.T) {
	t.Parallel()
	d := openDatabase(t)
	for range 100 {
		_, err := d.store.Take(t.Context(), "limit", 3, 7, ratelimit.Window{Starts: 10, Per: time.Microsecond})
		require.NoError(t, err)
	}
	require.NoError(t, d.store.Pause(t.Context(), "limit", time.Hour))
	_, err := d.store.Take(t.Context(), "limit", 0, 0, ratelimit.Window{Starts: 4, Per: time.Microsecond})
	require.NoError(t, err)
	var rows int
	require.NoError(t, d.other.QueryRow(t.Context(), `SELECT count(*) FROM dispensary_ratelimit`).Scan(&rows))
	assert.Equal(t, 1+4, rows)
}

// A server's clock was ahead of the clock of its successor.
func TestStartsInFutureDoNotCount(t *testing.T) {
	t.Parallel()
	d := openDatabase(t)
	limit := ratelimit.Window{Starts: 2, Per: time.Hour}
	_, err := d.store.Take(t.Context(), "limit", 0, 2, limit)
	require.NoError(t, err)
	d.exec(t, `UPDATE dispensary_ratelimit SET at = at + interval '1 day'`)
	taken, err := d.store.Take(t.Context(), "limit", 0, 3, limit)
	require.NoError(t, err)
	assert.Equal(t, 2, taken.Starts)
}

func TestMigrateCreatesTable(t *testing.T) {
	t.Parallel()
	sqltest.RunSchema(t, sqltest.Store{
		Driver: "pgx", Script: pgstore.Schema,
		Create: func(ctx context.Context, _ *sql.DB, name string) error {
			pool, err := pgxpool.New(ctx, name)
			if err != nil {
				return err
			}
			defer pool.Close()
			store, err := pgstore.New(pool)
			if err != nil {
				return err
			}
			return store.Migrate(ctx)
		},
	})
}

func TestNewRejectsNilPool(t *testing.T) {
	t.Parallel()
	_, err := pgstore.New(nil)
	assert.ErrorIs(t, err, api.ErrArgument)
}

// A database may have another default isolation level.
func TestStoreSupportsStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			config, err := pgxpool.ParseConfig(postgrestest.Schema(t))
			require.NoError(t, err)
			config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			config.MaxConns = 8
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			store, err := pgstore.New(pool)
			require.NoError(t, err)
			require.NoError(t, store.Migrate(t.Context()))
			var starts atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for range 10 {
						taken, err := store.Take(t.Context(), "limit", 0, 1, ratelimit.Window{Starts: 50, Per: time.Hour})
						assert.NoError(t, err)
						assert.NoError(t, store.Pause(t.Context(), "limit", time.Hour))
						starts.Add(int32(taken.Starts))
					}
				})
			}
			wg.Wait()
			assert.EqualValues(t, 50, starts.Load())
		})
	}
}
