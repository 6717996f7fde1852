package pgstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

func TestStore(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		store := open(t)
		require.NoError(t, store.Migrate(t.Context()))
		return store
	})
}

func TestMigrate(t *testing.T) {
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
