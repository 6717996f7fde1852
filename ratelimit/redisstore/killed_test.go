package redisstore_test

import (
	"context"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

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
		// The fake time stands still while the client waits, so it must not retry.
		_, store := open(t, &redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1})
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
