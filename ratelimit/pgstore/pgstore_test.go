package pgstore_test

import (
	"context"
	"fmt"
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
	"github.com/dispensary-go/dispensary/internal/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
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

func TestStore(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		store := open(t)
		require.NoError(t, store.Migrate(t.Context()))
		return store
	})
}

func TestMigrateAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	store := open(t)
	_, err := store.Exchange(t.Context(), "limit", "a", nil, time.Hour)
	require.ErrorContains(t, err, "pgstore")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { assert.NoError(t, store.Migrate(t.Context())) })
	}
	wg.Wait()
	_, err = store.Exchange(t.Context(), "limit", "a", nil, time.Hour)
	assert.NoError(t, err)
}

// From PostgreSQL 15 on, a role may not create tables in a schema of another owner.
func TestMigrateNeedsNoRightIfTableExists(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Schema(t)
	pool, err := pgxpool.New(t.Context(), dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	owner, err := pgstore.New(pool)
	require.NoError(t, err)
	require.NoError(t, owner.Migrate(t.Context()))

	var schema string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT current_schema()`).Scan(&schema))
	role := "app_of_" + schema
	exec := func(statement string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	exec(`CREATE ROLE ` + role)
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), `DROP OWNED BY `+role+`; DROP ROLE `+role)
		assert.NoError(t, err)
	})
	exec(`GRANT USAGE ON SCHEMA ` + schema + ` TO ` + role)
	exec(`GRANT SELECT, INSERT, UPDATE, DELETE ON dispensary_ratelimit TO ` + role)
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(t, err)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET ROLE `+role)
		return err
	}
	limited, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(limited.Close)
	store, err := pgstore.New(limited)
	require.NoError(t, err)
	require.NoError(t, store.Migrate(t.Context()))
	_, err = store.Exchange(t.Context(), "limit", "a", nil, time.Hour)
	require.NoError(t, err)
	exec(`DROP TABLE dispensary_ratelimit`)
	require.ErrorContains(t, store.Migrate(t.Context()), "permission denied", "without the table it needs the right")
}

func TestNewWithoutPool(t *testing.T) {
	t.Parallel()
	_, err := pgstore.New(nil)
	assert.ErrorIs(t, err, api.ErrInvalidArgument)
}

// A database may have another isolation level by default.
func TestStoreAtStricterIsolation(t *testing.T) {
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
			for round := range 20 {
				var seen atomic.Int32
				var wg sync.WaitGroup
				for _, process := range []string{"a", "b", "c", "d"} {
					wg.Go(func() {
						board, err := store.Exchange(t.Context(), fmt.Sprint(round), process, nil, time.Hour)
						assert.NoError(t, err)
						seen.Add(int32(len(board.Records)))
					})
				}
				wg.Wait()
				assert.EqualValues(t, 1+2+3+4, seen.Load(), "each sees those before it")
			}
		})
	}
}
