package riverinbox_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
)

// replica is a receiver that is started again whenever it ends.
type replica struct {
	socket *os.File
	url    *url.URL

	mu      sync.Mutex
	process *os.Process
	killed  bool
}

func (k *killTest) newReplica(t *testing.T) *replica {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &replica{url: &url.URL{Scheme: "http", Host: listener.Addr().String()}}
	// The receivers inherit the socket: who connects while none of them runs
	// waits for the next one.
	r.socket, err = listener.(*net.TCPListener).File()
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil && k.life(t, r) {
		}
	}()
	t.Cleanup(func() {
		cancel()
		r.kill()
		<-ended
		_ = r.socket.Close()
	})
	return r
}

// life starts a receiver and waits for its end.
func (k *killTest) life(t *testing.T, r *replica) bool {
	application := k.platform.Application()
	receiver, err := receivertest.StartReceiver(r.socket, k.folder+"/log",
		"RIVERINBOX_TEST_RECEIVER="+k.folder, "RIVERINBOX_TEST_ADDRESS="+k.address,
		"RIVERINBOX_TEST_SECRET="+application.WebhookSecret, "RIVERINBOX_TEST_CHALLENGE="+application.ChallengeToken)
	if !assert.NoError(t, err) {
		return false
	}
	r.mu.Lock()
	r.process, r.killed = receiver.Process, false
	r.mu.Unlock()
	_ = receiver.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch status := receiver.ProcessState; {
	case r.killed:
	case status.ExitCode() < 0: // by a signal, its own
		k.suicides.Add(1)
	default:
		k.deaths.Add(1) // it could not start, for want of the database
	}
	r.process = nil
	return true
}

func (r *replica) kill() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return false
	}
	r.killed = true
	return r.process.Kill() == nil
}
