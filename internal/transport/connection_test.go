package transport

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// marking is a transport that marks every request as repeatable.
type marking struct {
	header string
	base   http.RoundTripper
}

func (m marking) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(m.header, "7c1f")
	return m.base.RoundTrip(r)
}

// writes are calls with and without a body, by method.
var writes = map[string]func(context.Context, *Client) error{
	"POST": func(ctx context.Context, c *Client) error { return createOnce(ctx, c) },
	"PATCH": func(ctx context.Context, c *Client) error {
		_, err := One[thing](ctx, c, Call{Operation: operation.TreatmentPlanActivate, Path: []string{"p"}})
		return err
	},
	"DELETE": func(ctx context.Context, c *Client) error {
		_, err := Raw(ctx, c, http.MethodDelete, "/x", nil, nil, nil)
		return err
	},
	"revoke": func(ctx context.Context, c *Client) error {
		return Do(ctx, c, Call{Operation: operation.OAuthRevoke, Body: thing{}})
	},
}

func TestNetHTTPRepeatsNoWrite(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key", "idempotency-key", "Unrelated"} {
		for name, write := range writes {
			t.Run(header+" "+name, func(t *testing.T) {
				t.Parallel()
				var applied atomic.Int32
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("X-Request-Id", "r-1")
					if r.Method == http.MethodGet {
						_, _ = io.WriteString(w, `{"patient":{"id":"p1"}}`)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if applied.Add(1) > 1 {
						_, _ = io.WriteString(w, `{"patient":{"id":"p2"},"treatment_plan":{"id":"t2"}}`)
						return
					}
					conn, _, err := w.(http.Hijacker).Hijack() // the response is lost
					if assert.NoError(t, err) {
						_ = conn.(*net.TCPConn).SetLinger(0)
						_ = conn.Close()
					}
				}))
				t.Cleanup(server.Close)
				pool := &http.Transport{}
				t.Cleanup(pool.CloseIdleConnections)
				client := newTestClient(t, marking{header, pool}, at(server.URL))
				require.NoError(t, get(t.Context(), client), "the pool keeps the connection")
				err := write(t.Context(), client)
				require.ErrorIs(t, err, api.ErrMaybeApplied)
				assert.EqualValues(t, 1, applied.Load())
			})
		}
	}
}

func TestFailedRepetitionMayHaveBeenApplied(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"patient":{"id":"p1"}}`)
			return
		}
		_ = server.Listener.Close() // the repetition cannot connect
		conn, _, err := w.(http.Hijacker).Hijack()
		if assert.NoError(t, err) {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}))
	t.Cleanup(server.Close)
	client := newTestClient(t, marking{"Idempotency-Key", &http.Transport{}}, at(server.URL))
	require.NoError(t, get(t.Context(), client))
	err := create(t.Context(), client)
	require.ErrorIs(t, err, api.ErrMaybeApplied)
	failure := failureOf(t, err)
	assert.Equal(t, 1, failure.Attempts)
}

// draining closes its first connection with GOAWAY before it processes a request, like a
// server during a restart.
type draining struct {
	net.Listener
	config  func() *tls.Config
	drained atomic.Bool
}

func (d *draining) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil || d.drained.Swap(true) {
		return conn, err
	}
	go d.drain(conn)
	return d.Listener.Accept()
}

func (d *draining) drain(conn net.Conn) {
	secure := tls.Server(conn, d.config())
	defer func() { _ = secure.Close() }()
	_, _ = io.ReadFull(secure, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	_, _ = secure.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
	for {
		frame := make([]byte, 9)
		if _, err := io.ReadFull(secure, frame); err != nil {
			return
		}
		payload := int64(frame[0])<<16 | int64(frame[1])<<8 | int64(frame[2])
		if _, err := io.CopyN(io.Discard, secure, payload); err != nil {
			return
		}
		if headers := byte(1); frame[3] == headers {
			break
		}
	}
	_, _ = secure.Write([]byte{0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // GOAWAY: no stream was processed
	_, _ = io.Copy(io.Discard, secure)
}

func TestGoAwayRepeatsWriteOnce(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"Unrelated", "Idempotency-Key"} {
		var bodies []string
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			bodies = append(bodies, r.Proto+" "+string(body))
			w.Header().Set("X-Request-Id", "r-1")
			_, _ = io.WriteString(w, `{"patient":{"id":"p1"}}`)
		}))
		server.EnableHTTP2 = true
		listener := &draining{Listener: server.Listener, config: func() *tls.Config { return server.TLS }}
		server.Listener = listener
		server.StartTLS()
		t.Cleanup(server.Close)
		client := newTestClient(t, marking{header, server.Client().Transport}, at(server.URL))
		require.NoError(t, createOnce(t.Context(), client), header)
		assert.True(t, listener.drained.Load())
		assert.Equal(t, []string{`HTTP/2.0 {"id":"body-canary","size":0}`}, bodies)
	}
}
