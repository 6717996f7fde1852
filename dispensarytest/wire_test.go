package dispensarytest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/memhttp"
)

const ehr = "https://ehr.example.com"

// hosting returns a client of a platform in memory that hosts a handler.
func hosting(t testing.TB, h http.HandlerFunc) *http.Client {
	fake := New(t, WithInMemory())
	require.NoError(t, fake.Host(ehr, h))
	return fake.HTTPClient()
}

func bodyOf(t testing.TB, resp *http.Response, err error) string {
	t.Helper()
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

func TestMemoryRespondsLikeServer(t *testing.T) {
	t.Parallel()
	client := hosting(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		assert.Equal(t, "/a b", r.URL.Path)
		assert.Empty(t, r.URL.Host, "a server receives only a path")
		assert.Equal(t, "ehr.example.com", r.Host)
		assert.Equal(t, "192.0.2.1:49152", r.RemoteAddr)
		assert.NotNil(t, r.TLS)
		assert.NotEmpty(t, r.UserAgent())
		w.Header().Set("X-Late", "no")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "<p>"+string(body))
	})
	for _, from := range []io.Reader{strings.NewReader("x=1"), iotest.OneByteReader(strings.NewReader("x=1"))} {
		resp, err := client.Post(ehr+"/a%20b?q", "text/plain", from)
		assert.Equal(t, "<p>x=1", bodyOf(t, resp, err))
		assert.Equal(t, http.StatusAccepted, resp.StatusCode)
		assert.Equal(t, "202 Accepted", resp.Status)
		assert.Equal(t, "no", resp.Header.Get("X-Late"), "the status fixes the headers")
		assert.Equal(t, "text/html; charset=utf-8", resp.Header.Get("Content-Type"))
		assert.EqualValues(t, 6, resp.ContentLength)
		assert.NotNil(t, resp.TLS)
	}
}

func TestMemorySendsResponseWithoutBody(t *testing.T) {
	t.Parallel()
	client := hosting(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
		}
		n, err := w.Write([]byte("ignored"))
		assert.NoError(t, err)
		assert.Equal(t, 7, n)
	})
	resp, err := client.Head(ehr)
	assert.Empty(t, bodyOf(t, resp, err))
	resp, err = client.Get(ehr)
	assert.Empty(t, bodyOf(t, resp, err))
	assert.Equal(t, http.StatusNoContent, resp.StatusCode)

	silent := hosting(t, func(http.ResponseWriter, *http.Request) {})
	resp, err = silent.Get(ehr)
	assert.Empty(t, bodyOf(t, resp, err))
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestMemoryEnforcesContentLength(t *testing.T) {
	t.Parallel()
	client := hosting(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		n, err := io.WriteString(w, strings.TrimPrefix(r.URL.Path, "/"))
		if n == 5 && len(r.URL.Path) > 6 {
			assert.ErrorIs(t, err, http.ErrContentLength)
		}
	})
	resp, err := client.Get(ehr + "/exact")
	assert.Equal(t, "exact", bodyOf(t, resp, err))
	resp, err = client.Get(ehr + "/excessive")
	assert.Equal(t, "exces", bodyOf(t, resp, err))
	resp, err = client.Get(ehr + "/few")
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, "few", string(got))
	assert.EqualValues(t, 5, resp.ContentLength)
}

func TestMemoryStreamsBodies(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	client := hosting(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		for line := range lines {
			_, _ = io.WriteString(w, line)
		}
	})
	resp, err := client.Get(ehr)
	require.NoError(t, err, "the head arrives before the body")
	defer resp.Body.Close()
	assert.EqualValues(t, -1, resp.ContentLength)
	buffer := make([]byte, 100)
	for _, line := range []string{"one", "two"} {
		lines <- line
		n, err := resp.Body.Read(buffer)
		require.NoError(t, err)
		assert.Equal(t, line, string(buffer[:n]))
	}
	close(lines)
	_, err = resp.Body.Read(buffer)
	assert.ErrorIs(t, err, io.EOF)
}

// A handler that writes more than the window waits for its reader, and the whole body arrives.
func TestMemoryAppliesBackPressure(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("0123456789"), memhttp.Window/2)
	written := make(chan int, 1)
	client := hosting(t, func(w http.ResponseWriter, _ *http.Request) {
		n, _ := w.Write(big)
		written <- n
	})
	resp, err := client.Get(ehr)
	require.NoError(t, err)
	select {
	case <-written:
		t.Fatal("the handler did not wait for its reader")
	default:
	}
	assert.Equal(t, string(big), bodyOf(t, resp, nil))
	assert.Equal(t, len(big), <-written)
}

func TestMemoryEndsWithClient(t *testing.T) {
	t.Parallel()
	run := func(name string, test func(t *testing.T, client *http.Client, left <-chan error)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				left := make(chan error, 1)
				test(t, hosting(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/streaming" {
						w.(http.Flusher).Flush()
					}
					<-r.Context().Done()
					_, err := w.Write(make([]byte, 10))
					left <- err
				}), left)
			})
		})
	}
	run("time-out before the head", func(t *testing.T, client *http.Client, left <-chan error) {
		client.Timeout = 20 * time.Millisecond
		_, err := client.Get(ehr)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		assert.ErrorIs(t, <-left, context.DeadlineExceeded)
	})
	run("time-out in the body", func(t *testing.T, client *http.Client, left <-chan error) {
		client.Timeout = 20 * time.Millisecond
		resp, err := client.Get(ehr + "/streaming")
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout())
		require.Error(t, <-left)
	})
	run("cancelled in the body", func(t *testing.T, client *http.Client, left <-chan error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, ehr+"/streaming", nil)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		why := errors.New("changed my mind")
		cancel(why)
		_, err = io.ReadAll(resp.Body)
		require.ErrorIs(t, err, why)
		require.ErrorIs(t, <-left, why)
	})
	run("cancelled before it was sent", func(t *testing.T, client *http.Client, left <-chan error) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, ehr, iotest.ErrReader(errors.New("must not be read")))
		_, err := client.Do(req)
		require.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, left)
	})
	run("body closed early", func(t *testing.T, client *http.Client, left <-chan error) {
		resp, err := client.Get(ehr + "/streaming")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.ErrorContains(t, <-left, "the client has left")
		_, err = resp.Body.Read(make([]byte, 1))
		assert.ErrorIs(t, err, net.ErrClosed)
	})
}

// If a client leaves, it wakes a handler that waits for the rest of a body.
func TestMemoryUploadEndsWithClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		met := make(chan error, 1)
		client := hosting(t, func(_ http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			met <- err
		})
		client.Timeout = 20 * time.Millisecond
		never, writer := io.Pipe()
		defer writer.Close()
		_, err := client.Post(ehr, "text/plain", never)
		require.Error(t, err)
		require.Error(t, <-met)
		_, err = writer.Write([]byte("x"))
		assert.ErrorIs(t, err, io.ErrClosedPipe, "the transport closes the request body")
	})
}

// A response may arrive before the body was read. The body is still closed.
func TestMemorySendsEarlyResponse(t *testing.T) {
	t.Parallel()
	client := hosting(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) })
	endless, writer := io.Pipe()
	resp, err := client.Post(ehr, "text/plain", endless)
	assert.Empty(t, bodyOf(t, resp, err))
	_, err = writer.Write([]byte("x"))
	assert.ErrorIs(t, err, io.ErrClosedPipe)
}

func TestMemoryPanicResetsConnection(t *testing.T) {
	t.Parallel()
	client := hosting(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			_, _ = io.WriteString(w, "not flushed, not seen")
			panic(http.ErrAbortHandler)
		case "/panic":
			panic("bug in the receiver")
		case "/goexit":
			runtime.Goexit()
		}
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	for path, says := range map[string]string{"/abort": "reset", "/panic": "bug in the receiver", "/goexit": "reset"} {
		_, err := client.Get(ehr + path)
		require.ErrorIs(t, err, syscall.ECONNRESET, path)
		assert.ErrorContains(t, err, says)
	}
	resp, err := client.Get(ehr + "/midway")
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	assert.Equal(t, "half", string(got))
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// The values of the client's context stay with the client: its trace hooks must not see the
// handler's requests.
func TestMemorySeparatesContexts(t *testing.T) {
	t.Parallel()
	client := hosting(t, func(_ http.ResponseWriter, r *http.Request) {
		assert.Nil(t, httptrace.ContextClientTrace(r.Context()))
		r.Header.Set("X-Scribble", "server")
	})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{})
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, ehr, nil)
	resp, err := client.Do(req)
	assert.Empty(t, bodyOf(t, resp, err))
	assert.Empty(t, req.Header.Get("X-Scribble"))
}
