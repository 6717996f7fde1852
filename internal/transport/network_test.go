package transport

import (
	"bytes"
	"context"
	"errors"
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
	"github.com/dispensary-go/dispensary/internal/operation"
)

// at sets the base URL of a test client to a real address.
func at(address string) func(*Config) {
	return func(c *Config) {
		c.Site.BaseURL = address
		c.Retry = api.RetryPolicy{MinWait: time.Nanosecond, MaxWait: time.Nanosecond}
	}
}

// refusingAddress returns the URL of a loopback address without a listener.
func refusingAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return "http://" + listener.Addr().String() + "/api"
}

func TestConnectionErrorHidesQuery(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	client := newTestClient(t, nil, at(refusingAddress(t)), func(c *Config) { c.Logger = logTo(&logged) })
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
	b := newTestClient(t, pool, at(refusingAddress(t)))
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
