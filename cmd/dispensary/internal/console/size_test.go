package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/control"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
