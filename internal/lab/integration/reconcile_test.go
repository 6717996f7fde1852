package integration_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/testkit/logtest"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// newProgramFixture returns a health record in one country with the variables of the program in
// docs/integration.md.
func newProgramFixture(t *testing.T) *fixture {
	t.Helper()
	f, _ := newFileFixture(t)
	for name := range maps.Clone(f.variables) {
		known := slices.ContainsFunc([]string{
			"_BASE_URL", "_AUTH_URL", "_CLIENT_ID", "_CLIENT_SECRET", "_REDIRECT_URL", "_WEBHOOK_SECRETS", "_WEBHOOK_CHALLENGE",
		}, func(end string) bool { return name == "DISPENSARY_US_SANDBOX"+end })
		if strings.Contains(name, "SANDBOX") && !known {
			delete(f.variables, name)
		}
	}
	delete(f.platforms, canada)
	return f
}

// running runs an integration until stop is called or the test ends.
func running(t testing.TB, i *integration.Integration) (stop func()) {
	t.Helper()
	ran := make(chan error, 1)
	go func() { ran <- i.Run(t.Context()) }()
	return func() {
		require.NoError(t, i.Shutdown(context.Background()))
		require.NoError(t, <-ran)
	}
}

// orders returns a setup with a reconcile interval, and a channel with the numbers of handled
// orders.
func (f *fixture) orders(every time.Duration) (setup integration.Setup, numbers chan string) {
	numbers = make(chan string, 10)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		numbers <- order.Object.OrderNumber
		return nil
	})
	setup = f.setup(router.Dispatch)
	setup.Accounts.Locate = nil
	setup.ReconcileEvery = every
	return setup, numbers
}

// missed places an order whose webhook the platform loses.
func (f *fixture) missed(t *testing.T) (number string) {
	t.Helper()
	lost := f.platforms[us].Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
	defer lost.Remove()
	number, _ = f.order(t, us)
	return number
}

// The program of docs/integration.md recovers an event after a lost webhook, while it runs and
// after a restart. It needs no other variables.
func TestProgramRecoversMissedEvent(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"often": 50 * time.Millisecond, "hourly": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newProgramFixture(t)
			setup, numbers := f.orders(every)
			stop := running(t, f.open(t, setup))
			f.connect(t, us, "dr-17")
			require.NoError(t, f.platforms[us].Webhooks.Register(f.server.URL+"/webhooks/us-sandbox", "order.placed"))
			number, _ := f.order(t, us)
			require.Equal(t, number, <-numbers, "order of the webhook")

			number = f.missed(t)
			stop()
			setup, numbers = f.orders(every)
			running(t, f.open(t, setup))
			assert.Equal(t, number, <-numbers)
		})
	}
}

// The integration reconciles a clinic as any of its connected users, including users who connect
// while it runs.
func TestReconcilerUsesAnyConnectedUser(t *testing.T) {
	t.Parallel()
	f := newProgramFixture(t)
	setup, numbers := f.orders(20 * time.Millisecond)
	i := f.open(t, setup)
	running(t, i)
	number := f.missed(t)
	f.connect(t, us, "dr-1")
	require.Equal(t, number, <-numbers)

	f.connect(t, us, "dr-2")
	require.NoError(t, i.Accounts.Disconnect(t.Context(), "dr-1"))
	number = f.missed(t)
	i.Reconcilers[us].Trigger()
	assert.Equal(t, number, <-numbers)
	clinic, err := i.Accounts.ForClinic(t.Context(), us, f.platforms[us].Clinics.All()[0].ID, accounts.ClinicOptions{})
	require.NoError(t, err)
	assert.Equal(t, "dr-2", clinic.User())
}

// After a user connects another account, the reconciler no longer uses the token of the first
// account.
func TestReconcilerFollowsReconnectedUser(t *testing.T) {
	t.Parallel()
	f := newProgramFixture(t)
	setup, _ := f.orders(time.Hour)
	i := f.open(t, setup)
	f.connect(t, us, "dr-1")
	platform, clinicID := f.platforms[us], f.platforms[us].Clinics.All()[0].ID
	_, err := i.Reconcilers[us].Run(t.Context(), clinicID)
	require.NoError(t, err)
	before, err := i.Accounts.Status(t.Context(), "dr-1")
	require.NoError(t, err)
	for _, person := range platform.Users() {
		if person.ClinicID == clinicID && person.ID != before.Owner.ID {
			response, err := platform.Browser(person).Authorize(t.Context(), f.server.URL+"/dispensary/connect?return_to=/healthz")
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			break
		}
	}
	after, err := i.Accounts.Status(t.Context(), "dr-1")
	require.NoError(t, err)
	require.NotEqual(t, before.Owner, after.Owner)
	n := len(platform.Journal.Requests())
	_, err = i.Reconcilers[us].Run(t.Context(), clinicID)
	require.NoError(t, err)
	requests := platform.Journal.Requests()[n:]
	require.NotEmpty(t, requests)
	for _, r := range requests {
		assert.NotEqual(t, before.Owner.ID, r.UserID)
	}
}

// A clinic without a connected user appears once in the log, and in the stats.
func TestDisconnectedClinicIsReported(t *testing.T) {
	t.Parallel()
	f := newProgramFixture(t)
	setup, _ := f.orders(time.Hour)
	runs := make(chan error, 10)
	setup.Reconcile.Observer.RunEnd = func(_ context.Context, _ reconcile.Report, err error) { runs <- err }
	var log logtest.Buffer
	setup.Logger = slog.New(slog.NewTextHandler(io.Writer(&log), nil))
	i := f.open(t, setup)
	f.connect(t, us, "dr-1")
	f.platforms[us].Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "oauth.revoke"})
	require.Error(t, i.Accounts.Disconnect(t.Context(), "dr-1"), "the failed revocation keeps the record of the clinic")
	running(t, i)
	require.Error(t, <-runs)
	require.Eventually(t, func() bool { return len(i.Reconcilers[us].Stats().Failing) == 1 }, time.Minute, time.Millisecond)
	failing := i.Reconcilers[us].Stats().Failing[0]
	assert.True(t, failing.Disconnected())
	for line := range strings.SplitSeq(log.String(), "\n") {
		assert.NotContains(t, line, "level=ERROR")
	}
	assert.Equal(t, 1, strings.Count(log.String(), "no user of the clinic is connected"))
}

func TestDisableReconcileCreatesNoReconciler(t *testing.T) {
	t.Parallel()
	f := newProgramFixture(t)
	setup, _ := f.orders(time.Hour)
	setup.DisableReconcile = true
	i := f.open(t, setup)
	assert.Empty(t, i.Reconcilers)
	assert.NotNil(t, i.Webhooks)
}

// Rejected requests are an outage at once if the platform's delivery log has a failed delivery.
// Without one they may be an attacker's, or the platform's for a clinic without a connected user, so
// they are an outage after half a day without an event.
func TestDeliveryLogConfirmsOutage(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]bool{"the platform": true, "an attacker": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newProgramFixture(t)
			setup, _ := f.orders(time.Hour)
			var later atomic.Int64
			setup.Webhooks.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			outages, seen := make(chan webhook.Outage, 10), make(chan webhook.Observation, 100)
			setup.Outage = func(_ context.Context, _ dispensary.Environment, o webhook.Outage) { outages <- o }
			setup.Webhooks.Observer.RequestEnd = func(_ context.Context, o webhook.Observation) { seen <- o }
			i := f.open(t, setup)
			f.connect(t, us, "dr-1")
			if failed { // only the developer dashboard has the new secret
				f.platforms[us].Fault(model.Fault{Effect: model.EffectDeliveryForged})
			}
			handler, err := i.WebhooksOf(us)
			require.NoError(t, err)
			require.NoError(t, f.platforms[us].Webhooks.RegisterHandler(handler, "order.placed"))
			f.order(t, us)
			<-seen
			require.Eventually(t, func() bool { // the platform logs the attempt once it has the response
				deliveries := f.platforms[us].Webhooks.Deliveries()
				return len(deliveries) == 1 && len(deliveries[0].Attempts) == 1
			}, time.Minute, time.Millisecond)
			forge := func() {
				request := httptest.NewRequest(http.MethodPost, "/webhooks/us-sandbox", strings.NewReader("{}"))
				request.Header.Set("SVC-Signature", webhook.Sign(dispensary.NewSecret("forged"), setup.Webhooks.Now(), []byte("{}")))
				handler.ServeHTTP(httptest.NewRecorder(), request)
				<-seen
				later.Add(int64(10 * time.Minute))
			}
			for range 4 {
				forge()
			}
			if !failed {
				assert.Empty(t, outages)
				later.Add(int64(12 * time.Hour))
				forge()
			}
			outage := <-outages
			assert.Equal(t, webhook.OutageKindRejecting, outage.Kind)
			assert.Equal(t, failed, outage.Confirmed)
			assert.Empty(t, outages)
		})
	}
}
