package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes is a listener for in-memory connections, which use the fake time of the test.
type pipes struct {
	connections chan net.Conn
	closed      context.Context
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}
func (pipes) Close() error   { return nil }
func (pipes) Addr() net.Addr { return &net.UnixAddr{} }

// serve runs test in fake time with a connection to a server.
func serve(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, client net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		listener := pipes{make(chan net.Conn), ctx}
		server := Server(handler)
		go func() { _ = server.Serve(listener) }()
		client, remote := net.Pipe()
		listener.connections <- remote
		test(t, client)
		end()
		assert.NoError(t, errors.Join(client.Close(), server.Close()))
	})
}

// closedAfter waits for the server to close the connection.
func closedAfter(t *testing.T, client net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	_, err := io.Copy(io.Discard, client)
	require.NoError(t, err)
	return time.Since(began)
}

func TestServerClosesSilentConnections(t *testing.T) {
	t.Parallel()
	read := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			w.WriteHeader(http.StatusRequestTimeout)
		}
	}
	for name, c := range map[string]struct {
		sent    string
		handler http.HandlerFunc
		want    time.Duration
	}{
		"no byte":       {"", read, headerTime},
		"half a header": {"GET / HT", read, headerTime},
		"half a body":   {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{", read, bodyTime},
		"half a chunk":  {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", read, bodyTime},
		"ignored body":  {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{", func(http.ResponseWriter, *http.Request) {}, bodyTime},
		"idle":          {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", read, idleTime},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			serve(t, c.handler, func(t *testing.T, client net.Conn) {
				_, err := io.WriteString(client, c.sent)
				require.NoError(t, err)
				assert.InDelta(t, c.want.Seconds(), closedAfter(t, client).Seconds(), 1)
			})
		})
	}
}

func TestServerAcceptsSlowSteadyBody(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	read := func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got <- string(text)
	}
	serve(t, read, func(t *testing.T, client net.Conn) {
		_, err := io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
		for range 9 {
			require.NoError(t, err)
			time.Sleep(bodyTime - time.Second)
			_, err = io.WriteString(client, "x")
		}
		require.NoError(t, err)
		assert.Equal(t, "xxxxxxxxx", <-got)
	})
}

// An event stream or a slow response outlasts all request timeouts.
func TestServerKeepsLongResponses(t *testing.T) {
	t.Parallel()
	stream := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for range 3 {
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
		}
	}
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"} {
		serve(t, stream, func(t *testing.T, client net.Conn) {
			_, err := io.WriteString(client, request)
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(client), nil)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.Equal(t, "event\nevent\nevent\n", string(text))
		})
	}
}
