package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	first := make([]byte, len("event: change"))
	_, err = response.Body.Read(first)
	require.NoError(t, err)
	assert.Equal(t, "event: change", string(first))
	leave() // server.Close waits for the end of the stream
	require.NoError(t, response.Body.Close())

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
	response := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/console/"+page, nil)
	request.Host, request.RemoteAddr = "127.0.0.1", "127.0.0.1:50000"
	console.ServeHTTP(response, request)
	require.Equal(t, http.StatusOK, response.Code, response.Body.String())
	return response
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

// Every button performs its action. The page after it shows the same action as a command.
func TestButtonsRunOperations(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	p := d.fake
	page := d.press("world", "Order")
	assert.Contains(t, page, `<p role="status"><b>Done.</b>`)
	assert.Contains(t, page, "/control/patients/"+p.Orders.All()[len(p.Orders.All())-1].PatientID+"/orders")
	assert.Equal(t, model.EventOrderPlaced, p.Events()[0].Type)

	d.press("world", "Register a patient")
	d.press("world", "Add a plan")
	d.press("world?kind=plans", "Order")
	orders := p.Orders.All()
	assert.Equal(t, []string{p.Plans.All()[len(p.Plans.All())-1].ID}, orders[len(orders)-1].PlanIDs)
	d.press("world?kind=plans", "Cancel")
	d.press("world?kind=orders", "Refund")
	d.press("world", "Revoke")
	d.press("world", "Activate")
	var kinds []string
	for _, e := range p.Events()[1:] {
		kinds = append(kinds, e.Type)
	}
	assert.Equal(t, []string{"patient.created", "treatment_plan.created", "order.placed", "treatment_plan.updated", "clinic_key.revoked", "clinic_key.activated"}, kinds)

	d.press("tokens", "Issue a token for")
	d.press("tokens", "Expire")
	d.sees("tokens", "expired")
	d.press("tokens", "Issue a token for")
	d.press("tokens", "Revoke")
	d.sees("tokens", "revoked")
	d.press("tokens", "Issue a token for")
	d.press("tokens", "Invalidate all")
	d.sees("tokens", "invalidated")
	d.fake.Fault(model.Fault{Effect: model.EffectDropAfterCommit})
	d.press("faults", "Remove<")
	assert.Empty(t, d.fake.Faults())
	for _, p := range presets {
		page := d.press("faults", p.Label)
		assert.Contains(t, page, `<b>Done.</b>`, p.Label)
		assert.Len(t, d.fake.Faults(), 1, p.Label)
		d.fake.ClearFaults()
	}
	d.press("behaviors", "before-each")
	assert.Contains(t, d.fake.Behaviors(), behavior.ProbeBeforeEach)
	now := d.fake.Clock.Now()
	d.press("clock", "2 hours")
	assert.Equal(t, now.Add(2*time.Hour), d.fake.Clock.Now())
	d.press("", "Reset the platform")
	assert.Empty(t, p.Events())
}

func TestDisabledEndpointIsEnabled(t *testing.T) {
	t.Parallel()
	d := newFixture(t, dispensarytest.WithBehavior(behavior.DeliveryConditionsOff))
	require.NoError(t, d.fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	})))
	d.press("world", "Order")
	d.fake.Clock.Advance(0)
	d.sees("deliveries", "The endpoint is disabled: it responded with 410.")
	assert.NotContains(t, d.press("deliveries", "Enable the endpoint"), "is disabled")
	endpoint, _ := d.fake.Webhooks.Endpoint()
	assert.False(t, endpoint.Disabled)
}

// An action redirects, so that a reload does not repeat it.
func TestActionRedirects(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(id string, fields url.Values) (status int, to string) {
		response, err := client.PostForm(d.url+"actions/"+id, fields)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, response.Header.Get("Location")
	}
	for returning, want := range map[string]string{
		"deliveries": "../deliveries?did=", "": "../?did=", "https://evil.example.com/": "../?did=",
		"deliveries?q=order&state=failing": "../deliveries?q=order&state=failing&did=",
		"deliveries?q=a%26b&x=y":           "../deliveries?q=a%26b&did=",
		"deliveries?%zz":                   "../?did=",
		"//evil.example.com/?q=x":          "../?did=",
	} {
		status, to := send("clock.advance", url.Values{"body.by": {"1m"}, "return": {returning}})
		assert.Equal(t, http.StatusSeeOther, status)
		assert.True(t, strings.HasPrefix(to, want), to)
	}
	status, to := send("clock.advance", url.Values{"body.by": {"soon"}, "return": {"clock"}})
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Empty(t, to)
	status, _ = send("clock.advance", url.Values{"body.to": {"2026-03-02T08:00:00Z"}})
	assert.Equal(t, http.StatusSeeOther, status, "the clock has passed the time of the button")
}

// The pages list every operation with its command.
func TestPagesListEveryOperation(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	named := map[string]bool{}
	for _, r := range pages() {
		for _, id := range r.operations {
			_, known := operation(id)
			assert.True(t, known, id)
			d.sees(r.Path, "<summary>"+id+"</summary>")
			named[id] = true
		}
	}
	for _, op := range control.Operations() {
		assert.True(t, named[op.ID], op.ID)
	}
}

// A rejection shows its reason and the command.
func TestRejectionShowsReason(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	patient := d.fake.Patients.All()[0].ID
	d.do("platform.place_order", 200, "patient_id", patient)
	assert.Len(t, d.fake.Events(), 1)
	assert.Contains(t, d.do("platform.place_order", 404, "patient_id", "nobody"), "Rejected with status 404")
	assert.Contains(t, d.do("faults.set", 422, "body.effect", "latency", "body.times", "two"), "times must be a whole number")
	page := d.do("webhook.register", 422, "body.url", "<b>")
	assert.NotContains(t, page, "<b>")
	assert.Contains(t, page, "/control/webhook")
	d.do("no.such", 404)
	d.do("patients.list", 404)
}

func TestEndpointIsRegistered(t *testing.T) {
	t.Parallel()
	d := newFixture(t)
	d.sees("deliveries", `action="./actions/webhook.register"`, "Register an endpoint")
	assert.Contains(t, d.do("webhook.register", 200, "return", "deliveries", "body.url", "https://127.0.0.1/webhooks"), "Register another endpoint")
	endpoint, _ := d.fake.Webhooks.Endpoint()
	assert.Equal(t, "https://127.0.0.1/webhooks", endpoint.URL)
}
