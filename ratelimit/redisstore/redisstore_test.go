package redisstore_test

import (
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/ratelimit/redisstore"
)

func open(t *testing.T, options *redis.Options) (*redis.Client, ratelimit.Store) {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	store, err := redisstore.New(client)
	require.NoError(t, err)
	return client, store
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		_, store := open(t, &redis.Options{Addr: miniredis.RunT(t).Addr()})
		return store
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	address := os.Getenv("DISPENSARY_TEST_REDIS")
	if address == "" {
		t.Skip("DISPENSARY_TEST_REDIS is not set")
	}
	options, err := redis.ParseURL(address)
	require.NoError(t, err)
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		_, store := open(t, options)
		return ratelimittest.Within(store, rand.Text())
	})
}

func TestAnotherProgramsKey(t *testing.T) {
	t.Parallel()
	client, store := open(t, &redis.Options{Addr: miniredis.RunT(t).Addr()})
	require.NoError(t, client.HSet(t.Context(), "dispensary:ratelimit:x", "a", "b").Err())
	_, err := store.Exchange(t.Context(), "x", "p", nil, time.Hour)
	assert.ErrorContains(t, err, "redisstore")
}

func TestNewWithoutClient(t *testing.T) {
	t.Parallel()
	_, err := redisstore.New(nil)
	assert.ErrorIs(t, err, api.ErrInvalidArgument)
}
