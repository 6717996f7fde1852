package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

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
