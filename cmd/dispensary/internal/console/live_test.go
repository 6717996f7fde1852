package console

import (
	"bytes"
	"context"
	"fmt"
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
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
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

// busy returns the console of a platform with n requests and n deliveries of n orders. The platform
// has at least 2n patients, plans, orders and tokens.
func busy(t *testing.T, n int) http.Handler {
	t.Helper()
	fake := dispensarytest.New(t, dispensarytest.WithInMemory(),
		dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 1, Patients: 2 * n, Products: n, Plans: 2 * n, Orders: n}}),
		dispensarytest.WithBehavior(behavior.DeliveryConditionsOff, behavior.IntegrationActivationFromTheStart), dispensarytest.WithClock(dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))))
	challenge := fake.Application().ChallengeToken
	require.NoError(t, fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"challenge":%q}`, challenge)
	})))
	patient := fake.Patients.All()[0].ID
	for range 2 * n {
		fake.Tokens.Issue(model.User{})
	}
	for i := range n {
		_, _, err := fake.Orders.Place(patient, model.OrderCreate{})
		require.NoError(t, err)
		fake.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/clinic/patients/%s?n=%d", patient, i), nil))
	}
	fake.Clock.Advance(0)
	require.GreaterOrEqual(t, len(fake.Webhooks.Deliveries()), n)
	require.Len(t, fake.Journal.Requests(), n)
	totals := fake.Overview(0).Totals
	require.GreaterOrEqual(t, min(totals.Patients, totals.Plans, totals.Orders), 2*n)
	return http.StripPrefix("/console", New(fake, control.New(fake, control.Options{})))
}

// heaviest are the largest pages of a busy platform, some with details.
var heaviest = []string{
	"", "tokens", "timeline", "timeline?q=order", "tokens?q=jane", "world", "world?q=doe", "world?kind=plans", "world?kind=plans&q=doe", "world?kind=orders", "world?kind=orders&q=doe", "world?kind=products", "events", "events?q=order&kind=order.placed",
	"deliveries", "deliveries?state=delivered&q=order", "requests", "requests?q=clinic&failed=true", "requests?select=request-1", "clock", "faults", "behaviors",
}

func open(t *testing.T, console http.Handler, page string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/console/"+page, nil)
	request.Host, request.RemoteAddr = "127.0.0.1", "127.0.0.1:50000"
	console.ServeHTTP(answer, request)
	require.Equal(t, http.StatusOK, answer.Code, answer.Body.String())
	return answer
}

// mostBytes is the largest allowed page, in bytes.
const mostBytes = 150_000

func TestBusyPlatformHasSmallPages(t *testing.T) {
	t.Parallel()
	console := busy(t, 250)
	for _, page := range heaviest {
		assert.Less(t, open(t, console, page).Body.Len(), mostBytes, page)
	}
}
