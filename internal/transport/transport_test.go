package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
)

var sandbox = api.USSandbox

// responder is a transport without sockets. It numbers the requests and responds to each.
type responder struct {
	calls   atomic.Int32
	respond func(call int, r *http.Request) (*http.Response, error)
}

func (a *responder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return a.respond(int(a.calls.Add(1)), r)
}

// reply returns a response. headers are pairs of name and value.
func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{"X-Request-Id": {"req-1"}}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// says is a transport that always returns the same response.
func says(status int, body string, headers ...string) *responder {
	return &responder{respond: func(int, *http.Request) (*http.Response, error) { return reply(status, body, headers...), nil }}
}

// static is a token source that cannot refresh.
type static struct{ token api.AccessToken }

func (s static) Token(context.Context) (api.AccessToken, error) { return s.token, nil }

func validToken() api.AccessToken {
	return api.AccessToken{Secret: api.NewSecret("token-canary"), Environment: sandbox}
}

// view returns a view of a client.
func view(t *testing.T, client *Client, change func(*Config)) *Client {
	t.Helper()
	made, err := client.With(func(c *Config) error { change(c); return nil })
	require.NoError(t, err)
	return made
}

// newTestClient returns a client for a site that no network reaches.
func newTestClient(t *testing.T, transport http.RoundTripper, change ...func(*Config)) *Client {
	t.Helper()
	config := Config{
		Site: api.Site{
			Environment: sandbox,
			BaseURL:     "https://platform.example/api",
			AuthURL:     "https://auth.example",
		},
		Transport: transport,
		Tokens:    static{validToken()},
		UserAgent: "test",
	}
	for _, c := range change {
		c(&config)
	}
	client, err := New(config)
	require.NoError(t, err)
	return client
}

// thing is a resource for tests.
type thing struct {
	ID   string `json:"id"`
	Size int    `json:"size"`
}

// failureOf returns err as the error of a call.
func failureOf(t *testing.T, err error) *api.Error {
	t.Helper()
	var failure *api.Error
	require.ErrorAs(t, err, &failure)
	return failure
}

// texts returns all printed forms of an error.
func texts(err error) []string {
	forms := []string{err.Error()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		forms = append(forms, fmt.Sprintf(verb, err))
	}
	for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
		forms = append(forms, wrapped.Error(), fmt.Sprintf("%+v", wrapped), fmt.Sprintf("%#v", wrapped))
	}
	var log bytes.Buffer
	logTo(&log).Error("failed", "err", err)
	return append(forms, log.String())
}

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
