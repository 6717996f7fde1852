package pgstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/postgrestest"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/ratelimit/pgstore"
	"github.com/dispensary-go/dispensary/ratelimit/storetest"
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
	storetest.Run(t, func(t *testing.T) ratelimit.Store {
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

func TestNewWithoutPool(t *testing.T) {
	t.Parallel()
	_, err := pgstore.New(nil)
	assert.ErrorIs(t, err, api.ErrInvalidArgument)
}
