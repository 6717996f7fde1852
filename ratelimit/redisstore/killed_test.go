package redisstore_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/ratelimittest"
	"github.com/dispensary-go/dispensary/internal/testsize"
)

// once are the options of a client that does not wait for a server that is away: the time of
// the fleet stands still meanwhile.
func once(network, address string) *redis.Options {
	return &redis.Options{Network: network, Addr: address, MaxRetries: -1, DialerRetries: 1}
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
		_, store := open(t, once("tcp", server.Addr()))
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

// A process of Redis that is killed loses what was stored after its last snapshot.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("there is no redis-server on the PATH: the embedded one is killed all the same")
	}
	ratelimittest.RunKilled(t, func(t *testing.T) ratelimittest.Server {
		folder, err := os.MkdirTemp("", "redis") // sockets have short names
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, os.RemoveAll(folder)) })
		socket := filepath.Join(folder, "socket")
		client, store := open(t, once("unix", socket))
		var process *exec.Cmd
		start := func() {
			process = exec.Command(program, "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "")
			assert.NoError(t, process.Start())
			assert.Eventually(t, func() bool { return client.Ping(context.Background()).Err() == nil }, time.Minute, 5*time.Millisecond)
		}
		kill := func() {
			assert.NoError(t, process.Process.Kill())
			assert.ErrorContains(t, process.Wait(), "killed")
		}
		start()
		t.Cleanup(func() { kill() })
		return ratelimittest.Server{
			Store: store, Kill: kill, Start: start,
			Save: func() { assert.NoError(t, client.Save(context.Background()).Err()) },
		}
	})
}
