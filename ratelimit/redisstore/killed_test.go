package redisstore_test

import (
	"context"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// once are the options of a client that does not wait for a server that is away: the time of
// the fleet stands still meanwhile.
func once(address string) *redis.Options {
	return &redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1}
}

// The client prints each connection that it cannot make.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	os.Exit(m.Run())
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestEmbeddedIsKilled(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	ratelimittest.RunKilled(t, func(t *testing.T) ratelimittest.Server {
		server := miniredis.RunT(t)
		_, store := open(t, once(server.Addr()))
		return ratelimittest.Server{
			Store: store,
			Kill: func() {
				server.Close()
				server.FlushAll()
			},
			Start: func() { assert.NoError(t, server.Restart()) },
		}
	})
}
