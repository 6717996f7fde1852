package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
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

// database is a store and a connection of another program to its database.
type database struct {
	store *pgstore.Store
	down  atomic.Bool // the store cannot open new connections
	other *pgxpool.Pool
	name  string // application name of the store's connections
}

func openDatabase(t *testing.T) *database {
	t.Helper()
	address := postgrestest.Schema(t)
	d := &database{name: "store of " + address[len(address)-10:]}
	pool := func(name string) *pgxpool.Pool {
		config, err := pgxpool.ParseConfig(address)
		require.NoError(t, err)
		config.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			if name == d.name && d.down.Load() {
				return errors.New("connection refused")
			}
			return nil
		}
		config.ConnConfig.RuntimeParams["application_name"] = name
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	d.other = pool("other")
	var err error
	d.store, err = pgstore.New(pool(d.name))
	require.NoError(t, err)
	require.NoError(t, d.store.Migrate(t.Context()))
	return d
}

// terminate terminates the store's connections and returns their number.
func (d *database) terminate(t *testing.T) (ended int) {
	t.Helper()
	err := d.other.QueryRow(context.Background(), `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1`, d.name).Scan(&ended)
	assert.NoError(t, err)
	return ended
}

func (d *database) exec(t *testing.T, statements string) {
	t.Helper()
	_, err := d.other.Exec(context.Background(), statements)
	assert.NoError(t, err)
}

// A crash of the database closes all connections and empties the table, because it is
// unlogged.
func TestFleetSurvivesKilledDatabase(t *testing.T) {
	t.Parallel()
	d := openDatabase(t)
	ratelimittest.RunKilled(t, ratelimittest.Server{
		Store: d.store,
		Kill: func() {
			d.down.Store(true)
			d.terminate(t)
			d.exec(t, `TRUNCATE dispensary_ratelimit`)
		},
		Start: func() { d.down.Store(false) },
	})
}

// If the connection of a call is terminated, the call is repeated on another connection.
func TestStoreRepeatsTerminatedCalls(t *testing.T) {
	t.Parallel()
	d := openDatabase(t)
	limit := ratelimit.Window{Starts: 2, Per: time.Hour}
	_, err := d.store.Take(t.Context(), "limit", 0, 1, limit)
	require.NoError(t, err)
	tx, err := d.other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE dispensary_ratelimit IN SHARE MODE`)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := d.store.Take(context.Background(), "limit", 0, 1, limit)
		ended <- err
	}()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var waiting int
		err := d.other.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'`, d.name).Scan(&waiting)
		assert.NoError(c, err)
		assert.Equal(c, 1, waiting)
	}, time.Minute, 5*time.Millisecond)
	assert.Equal(t, 1, d.terminate(t))
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-ended)
	taken, err := d.store.Take(t.Context(), "limit", 0, 1, limit)
	require.NoError(t, err)
	assert.Zero(t, taken.Starts, "both starts must be recorded")
	taken, err = d.store.Take(t.Context(), "limit", 0, 1, ratelimit.Window{Starts: 3, Per: time.Hour})
	require.NoError(t, err)
	assert.Equal(t, 1, taken.Starts, "the second start must be recorded once")
}

// The store replaces connections to a server that was read-only when they were opened.
func TestStoreReplacesReadOnlyConnections(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), postgrestest.Schema(t))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := pgstore.New(pool)
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context()))
	var held []*pgxpool.Conn
	for range 3 {
		conn, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), `SET default_transaction_read_only = on`)
		require.NoError(t, err)
		held = append(held, conn)
	}
	for _, conn := range held {
		conn.Release()
	}
	taken, err := store.Take(t.Context(), "limit", 0, 1, ratelimit.Window{Starts: 1, Per: time.Hour})
	require.NoError(t, err)
	assert.Equal(t, 1, taken.Starts)
	assert.Zero(t, pool.Stat().AcquiredConns())
}
