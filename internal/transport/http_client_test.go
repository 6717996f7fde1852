package transport

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

// replaceDefaultTransport replaces http.DefaultTransport for the test. The test must not be
// parallel.
func replaceDefaultTransport(t *testing.T, transport http.RoundTripper) {
	standard := http.DefaultTransport
	http.DefaultTransport = transport
	t.Cleanup(func() { http.DefaultTransport = standard })
}

func TestClientUsesReplacedDefaultTransport(t *testing.T) {
	replaced := turns(found)
	replaceDefaultTransport(t, replaced)
	require.NoError(t, get(t.Context(), newTestClient(t, nil)))
	assert.EqualValues(t, 1, replaced.calls.Load())
}

func TestPoolKeepsSettingsOfDefaultTransport(t *testing.T) {
	standard := &http.Transport{MaxConnsPerHost: 7, HTTP2: &http.HTTP2Config{SendPingTimeout: time.Minute}}
	replaceDefaultTransport(t, standard)
	pool := newPool().(*http.Transport)
	assert.NotSame(t, standard, pool)
	assert.Equal(t, 7, pool.MaxConnsPerHost)
	assert.Equal(t, time.Minute, pool.HTTP2.SendPingTimeout)
}

// silentNetwork is a network of pipes. Its open connections can stop delivering bytes without
// being closed.
type silentNetwork struct {
	accepted chan net.Conn
	dials    atomic.Int32

	mu   sync.Mutex
	open []*pipe
}

// pipe is the client's end of a connection.
type pipe struct {
	net.Conn
	silent atomic.Bool
}

func (p *pipe) Write(b []byte) (int, error) {
	if p.silent.Load() {
		return len(b), nil
	}
	return p.Conn.Write(b)
}

func (n *silentNetwork) dial(context.Context, string, string) (net.Conn, error) {
	n.dials.Add(1)
	near, far := net.Pipe()
	p := &pipe{Conn: near}
	n.mu.Lock()
	n.open = append(n.open, p)
	n.mu.Unlock()
	n.accepted <- far
	return p, nil
}

func (n *silentNetwork) drop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.open {
		p.silent.Store(true)
	}
}

// Accept, Close and Addr implement [net.Listener].
func (n *silentNetwork) Accept() (net.Conn, error) {
	conn, ok := <-n.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (n *silentNetwork) Close() error   { return nil }
func (n *silentNetwork) Addr() net.Addr { return &net.TCPAddr{} }

func TestPingsReplaceDeadHTTP2Connection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &silentNetwork{accepted: make(chan net.Conn)}
		var protocol string
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			protocol = r.Proto
			_, _ = io.WriteString(w, `{"patient":{"id":"p1"}}`)
		}))
		_ = server.Listener.Close()
		server.Listener, server.EnableHTTP2, server.Config.ErrorLog = network, true, log.New(io.Discard, "", 0)
		server.StartTLS()
		pool := newPool().(*http.Transport)
		pool.DialContext, pool.TLSClientConfig = network.dial, server.Client().Transport.(*http.Transport).TLSClientConfig
		client := newTestClient(t, pool, func(c *Config) {
			c.AttemptTimeout, c.Site.BaseURL, c.Retry = 10*time.Second, "https://example.com/api", api.RetryPolicy{MaxAttempts: 1}
		})
		defer func() {
			pool.CloseIdleConnections()
			close(network.accepted)
			server.CloseClientConnections()
			server.Close()
		}()
		require.NoError(t, get(t.Context(), client))
		require.Equal(t, "HTTP/2.0", protocol)
		network.drop()
		began := time.Now()
		for get(t.Context(), client) != nil {
			require.Less(t, time.Since(began), time.Minute, "the dead connection is still in use")
		}
		assert.LessOrEqual(t, time.Since(began), 2*(sendPingTimeout+pingTimeout))
		assert.EqualValues(t, 2, network.dials.Load())
	})
}
