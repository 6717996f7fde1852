package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// at sets the base URL of a test client to a real address.
func at(address string) func(*Config) {
	return func(c *Config) {
		c.Site.BaseURL = address
		c.Retry = api.RetryPolicy{MinWait: time.Nanosecond, MaxWait: time.Nanosecond}
	}
}

// closedAddress returns the URL of a loopback address without a listener.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return "http://" + listener.Addr().String() + "/api"
}

func TestConnectionErrorHidesQuery(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	client := newTestClient(t, nil, at(closedAddress(t)), func(c *Config) { c.Logger = logTo(&logged) })
	query := url.Values{"query": {"Jane Doe"}}
	_, err := listOf(client, Call{Operation: operation.PatientSearch, Query: query}, api.ListSettings{}).Page(t.Context())
	require.Error(t, err)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
	var network *net.OpError
	assert.ErrorAs(t, err, &network)
	var address *url.Error
	assert.False(t, errors.As(err, &address), "a url.Error contains the query")
	for _, text := range append(texts(err), logged.String()) {
		for _, secret := range []string{"Jane", "Doe", "query", "token-canary"} {
			assert.NotContains(t, text, secret)
		}
	}
	assert.Contains(t, err.Error(), "patients.search GET /clinic/search/patients: connection refused")
	assert.Contains(t, logged.String(), "patients.search")
}

// A write canceled during dialing was provably not sent. A write canceled during the wait for
// the response may have been applied.
func TestCanceledWriteReportsOutcome(t *testing.T) {
	t.Parallel()
	t.Run("while dialing", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		err := create(ctx, newTestClient(t, transport))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, api.ErrNotSent)
	})
	t.Run("while waiting", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			cancel()
			<-release
		}))
		t.Cleanup(server.Close)
		t.Cleanup(func() { close(release) })
		err := create(ctx, newTestClient(t, nil, at(server.URL)))
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, api.ErrMaybeApplied)
	})
}

// The failure of one tenant must not close the connections of others.
func TestFailureKeepsConnectionsOfOthers(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	good := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"patient":{"id":"p1"}}`)
	}))
	good.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	good.Start()
	t.Cleanup(good.Close)
	pool := &http.Transport{}
	t.Cleanup(pool.CloseIdleConnections)
	a := newTestClient(t, pool, at(good.URL))
	b := newTestClient(t, pool, at(closedAddress(t)))
	require.NoError(t, get(t.Context(), a))
	require.Error(t, get(t.Context(), b))
	require.NoError(t, get(t.Context(), a))
	assert.EqualValues(t, 1, connections.Load())
}

func TestOnlyReadsFollowRedirectsWithinOrigin(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /clinic/patients/{id}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, map[string]string{"here": "/moved", "there": other.URL}[r.PathValue("id")], http.StatusFound)
	})
	mux.HandleFunc("POST /clinic/patients", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/moved", http.StatusFound)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "GET", r.Method, "a write must not be followed as a read")
		assert.Equal(t, "Bearer token-canary", r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, `{"patient":{"id":"moved"}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client := newTestClient(t, nil, at(server.URL))

	found, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"here"}})
	require.NoError(t, err)
	assert.Equal(t, "moved", found.ID)

	_, err = One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"there"}})
	failure := failureOf(t, err)
	assert.Equal(t, http.StatusFound, failure.StatusCode)
	assert.Zero(t, elsewhere.Load())

	err = create(t.Context(), client)
	require.ErrorAs(t, err, &failure)
	assert.Equal(t, http.StatusFound, failure.StatusCode)
	assert.ErrorIs(t, err, api.ErrMaybeApplied)
	assert.ErrorIs(t, err, api.ErrUntrusted)
}

func TestUntrustedCertificateIsNotRetried(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the rejected certificate
	server.StartTLS()
	t.Cleanup(server.Close)
	err := create(t.Context(), newTestClient(t, nil, at(server.URL)))
	failure := failureOf(t, err)
	assert.Equal(t, 1, failure.Attempts)
	assert.ErrorIs(t, err, api.ErrNotSent)
	assert.Contains(t, err.Error(), "certificate not trusted")
}

// rejectingProxy starts a proxy that responds to each CONNECT with status, and returns its URL
// with a password.
func rejectingProxy(t *testing.T, status string) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status)
			_ = conn.Close()
		}
	}()
	return &url.URL{Scheme: "http", Host: listener.Addr().String(), User: url.UserPassword("ehr", "proxy-canary")}
}

// callThrough makes a write and a read through a proxy and returns the error of the write.
func callThrough(t *testing.T, pool *http.Transport, proxy *url.URL) *api.Error {
	t.Helper()
	pool.Proxy = http.ProxyURL(proxy)
	t.Cleanup(pool.CloseIdleConnections)
	var seen []observe.Failure
	client := newTestClient(t, pool, func(c *Config) {
		c.Retry = api.RetryPolicy{MinWait: 1, MaxWait: 1}
		c.Observers = []observe.Observer{{CallEnd: func(_ context.Context, r observe.CallResult) { seen = append(seen, r.Failure) }}}
	})
	var failure, read *api.Error
	require.ErrorAs(t, create(t.Context(), client), &failure)
	require.ErrorAs(t, get(t.Context(), client), &read)
	assert.Equal(t, []observe.Failure{observe.FailureProxy, observe.FailureProxy}, seen)
	assert.Equal(t, failure.Attempts, read.Attempts)
	assert.Equal(t, api.OutcomeNotSent, failure.Outcome)
	assert.NotEmpty(t, ProxyFailure(failure))
	assert.NotEmpty(t, ProxyFailure(read))
	for _, text := range append(texts(failure), texts(read)...) {
		assert.NotContains(t, text, "proxy-canary")
	}
	return failure
}

func TestRejectedConnectNamesProxy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status, text string
		attempts     int
	}{
		"authentication": {"407 Proxy Authentication Required", "proxy responded 407 Proxy Authentication Required", 1},
		"a sentence":     {"407 Proxy Authentication Required (proxy-canary)", "proxy responded 407 Proxy Authentication Required", 1},
		"forbidden":      {"403 Forbidden", "proxy responded 403 Forbidden", 1},
		"gateway":        {"502 Bad Gateway", "proxy responded 502 Bad Gateway", 4},
	} {
		for owner, pool := range map[string]func() *http.Transport{
			"own":      func() *http.Transport { return newPool().(*http.Transport) },
			"caller's": func() *http.Transport { return &http.Transport{} },
		} {
			t.Run(name+" "+owner, func(t *testing.T) {
				t.Parallel()
				failure := callThrough(t, pool(), rejectingProxy(t, c.status))
				assert.Contains(t, failure.Error(), c.text)
				assert.Equal(t, c.attempts, failure.Attempts)
			})
		}
	}
}

func TestOwnPoolReportsStatusWithoutPhrase(t *testing.T) {
	t.Parallel()
	for status, text := range map[string]string{"407 authenticationrequired": "proxy responded 407 Proxy Authentication Required", "499 Blocked": "proxy responded 499: "} {
		failure := callThrough(t, newPool().(*http.Transport), rejectingProxy(t, status))
		assert.Contains(t, failure.Error(), text)
	}
}

func TestUnreachableProxyIsReported(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	for _, scheme := range []string{"http", "socks5"} {
		address := &url.URL{Scheme: scheme, Host: listener.Addr().String(), User: url.UserPassword("ehr", "proxy-canary")}
		failure := callThrough(t, newPool().(*http.Transport), address)
		assert.Contains(t, failure.Error(), "proxy not reachable: connection refused")
		assert.Equal(t, 4, failure.Attempts)
	}
}

func TestOtherErrorsNameNoProxy(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, errors.New(""), errors.New("network down"), errors.New("not found"), &net.OpError{Op: "dial", Err: errors.New("x")}} {
		assert.Empty(t, ProxyFailure(err))
	}
}

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
