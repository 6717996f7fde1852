package console

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// stream is the response to a browser that follows a page.
type stream struct {
	header http.Header
	status int

	mu   sync.Mutex
	text bytes.Buffer
}

func (s *stream) Header() http.Header { return s.header }

func (s *stream) WriteHeader(status int) { s.status = status }

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *stream) Flush() {}

// heard returns the messages since its last call.
func (s *stream) heard() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.String()
	s.text.Reset()
	return strings.Split(strings.TrimSpace(text), "\n\n")
}

// follow opens a stream until ctx is canceled. over is closed after the stream has ended.
func follow(ctx context.Context, h http.Handler) (s *stream, over <-chan struct{}) {
	s = &stream{header: make(http.Header)}
	ended := make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/live", nil)
	r.RemoteAddr = "127.0.0.1:1"
	go func() {
		defer close(ended)
		h.ServeHTTP(s, r)
	}()
	return s, ended
}

const at = "2026-03-02T09:00:00Z"

func message(name, stamp string) string { return "event: " + name + "\ndata: " + stamp }

func TestStreamReportsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithClock(dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))))
		ctx, leave := context.WithCancel(t.Context())
		s, over := follow(ctx, New(fake, control.New(fake, control.Options{})))
		assert.Equal(t, []string{message("change", at)}, s.heard(), "earlier changes")
		assert.Equal(t, "text/event-stream", s.header.Get("Content-Type"))
		time.Sleep(time.Hour)
		assert.Equal(t, []string{""}, s.heard(), "no change")

		for range 3 {
			_, _, err := fake.Patients.Create(model.PatientCreate{})
			require.NoError(t, err)
		}
		assert.Equal(t, []string{message("change", at)}, s.heard())
		fake.Clock.Advance(time.Minute)
		assert.Equal(t, []string{""}, s.heard(), "less than a pause after the last message")
		time.Sleep(pause)
		assert.Equal(t, []string{message("change", "2026-03-02T09:01:00Z")}, s.heard())

		leave()
		<-over
	})
}

func TestStreamReportsRunningClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := dispensarytest.New(t, dispensarytest.WithInMemory())
		console := New(fake, control.New(fake, control.Options{}))
		s, over := follow(t.Context(), console)
		s.heard()
		time.Sleep(pause + tick)
		assert.Equal(t, []string{message("tick", "2000-01-01T00:00:01Z")}, s.heard())

		require.NoError(t, fake.Close())
		time.Sleep(pause)
		<-over // ends with the platform
		s, over = follow(t.Context(), console)
		<-over
		assert.Equal(t, http.StatusNoContent, s.status, "the browser does not reconnect")
	})
}

// Over a socket, the stream ends with the browser. Other sites get no stream.
func TestStreamEndsWithBrowser(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, "GET", d.url+"live", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	first := make([]byte, len("event: change"))
	_, err = answer.Body.Read(first)
	require.NoError(t, err)
	assert.Equal(t, "event: change", string(first))
	leave() // server.Close waits for the end of the stream
	require.NoError(t, answer.Body.Close())

	request.Header.Set("Sec-Fetch-Site", "cross-site")
	status, _ := d.read(http.DefaultClient.Do(request.WithContext(t.Context())))
	assert.Equal(t, http.StatusForbidden, status)
}
