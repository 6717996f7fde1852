package redisstore_test

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"sync/atomic"
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

// The client would print every failed connection.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func open(t *testing.T, options *redis.Options) (*redis.Client, ratelimit.Store) {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	store, err := redisstore.New(client)
	require.NoError(t, err)
	return client, store
}

// The embedded server does not expire keys on its own.
func embedded(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	server := miniredis.RunT(t)
	stop := make(chan struct{})
	go func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				server.FastForward(5 * time.Millisecond)
			case <-stop:
				tick.Stop()
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop) })
	return server
}

func TestEmbeddedServerPassesConformanceSuite(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, func(t *testing.T) ratelimit.Store {
		_, store := open(t, &redis.Options{Addr: embedded(t).Addr()})
		return store
	})
}

func TestServerPassesConformanceSuite(t *testing.T) {
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

func TestFleetSurvivesKilledServer(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	_, store := open(t, &redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
	ratelimittest.RunKilled(t, ratelimittest.Server{
		Store: store,
		Kill: func() {
			server.Close()
			server.FlushAll()
		},
		Start: func() { assert.NoError(t, server.Restart()) },
	})
}

// A server accepts connections and never responds. By default the client ignores deadlines.
func TestSilentServerCostsOneTimeout(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	_, store := open(t, &redis.Options{Addr: listener.Addr().String(), ReadTimeout: time.Minute})
	counted := &counter{Store: store}
	fleet, err := ratelimit.NewFleet(ratelimit.FleetConfig{Store: counted, Timeout: 200 * time.Millisecond})
	require.NoError(t, err)
	for range 20 {
		require.NoError(t, fleet.Wait(t.Context()))
	}
	assert.EqualValues(t, 1, counted.takes.Load(), "20 requests together must wait for one timeout")
}

// counter is a store that counts calls of Take.
type counter struct {
	ratelimit.Store
	takes atomic.Int32
}

func (c *counter) Take(ctx context.Context, name string, past, want int, windows ...ratelimit.Window) (ratelimit.Taken, error) {
	c.takes.Add(1)
	return c.Store.Take(ctx, name, past, want, windows...)
}

// The list contains at most the starts of the limit, and expires after its period.
func TestListStaysShort(t *testing.T) {
	t.Parallel()
	client, store := open(t, &redis.Options{Addr: miniredis.RunT(t).Addr()})
	for range 100 {
		_, err := store.Take(t.Context(), "x", 3, 7, ratelimit.Window{Starts: 10, Per: time.Millisecond})
		require.NoError(t, err)
	}
	key := "{dispensary:ratelimit:x}:starts"
	assert.EqualValues(t, 10, client.LLen(t.Context(), key).Val())
	assert.LessOrEqual(t, client.PTTL(t.Context(), key).Val(), time.Millisecond)
}

// A server's clock was ahead of the clock of its successor.
func TestStartsInFutureDoNotCount(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	_, store := open(t, &redis.Options{Addr: server.Addr()})
	limit := ratelimit.Window{Starts: 2, Per: time.Hour}
	server.SetTime(time.Now().Add(24 * time.Hour))
	taken, err := store.Take(t.Context(), "x", 0, 2, limit)
	require.NoError(t, err)
	assert.Equal(t, 2, taken.Starts)
	server.SetTime(time.Now())
	taken, err = store.Take(t.Context(), "x", 0, 3, limit)
	require.NoError(t, err)
	assert.Equal(t, 2, taken.Starts)
}

func TestStoreRejectsForeignKey(t *testing.T) {
	t.Parallel()
	client, store := open(t, &redis.Options{Addr: miniredis.RunT(t).Addr()})
	require.NoError(t, client.HSet(t.Context(), "{dispensary:ratelimit:x}:starts", "a", "b").Err())
	_, err := store.Take(t.Context(), "x", 0, 1, ratelimit.Window{Starts: 1, Per: time.Hour})
	assert.ErrorContains(t, err, "redisstore")
}

func TestNewRejectsNilClient(t *testing.T) {
	t.Parallel()
	_, err := redisstore.New(nil)
	assert.ErrorIs(t, err, api.ErrArgument)
}
