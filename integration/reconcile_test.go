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

// newReadmeFixture returns a health record in one country with the variables that the README
// lists.
func newReadmeFixture(t *testing.T) *fixture {
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

// running runs an integration until stop is called, or the test ends.
func running(t testing.TB, i *integration.Integration) (stop func()) {
	t.Helper()
	ran := make(chan error, 1)
	go func() { ran <- i.Run(t.Context()) }()
	return func() {
		require.NoError(t, i.Shutdown(context.Background()))
		require.NoError(t, <-ran)
	}
}

// orders returns a setup that passes on the numbers of orders, and reconciles each interval.
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

// missed has a patient order, and the platform lose the webhook.
func (f *fixture) missed(t *testing.T) (number string) {
	t.Helper()
	lost := f.platforms[us].Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
	defer lost.Remove()
	number, _ = f.order(t, us)
	return number
}

// The program of the README, with its variables alone, recovers an event whose webhook was
// lost: while it runs, and after a restart.
func TestReadmeConfigurationRecoversMissedEvent(t *testing.T) {
	t.Parallel()
	for name, every := range map[string]time.Duration{"often": 50 * time.Millisecond, "hourly": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReadmeFixture(t)
			setup, numbers := f.orders(every)
			stop := running(t, f.open(t, setup))
			f.connect(t, us, "dr-17")
			require.NoError(t, f.platforms[us].Webhooks.Register(f.server.URL+"/webhooks/us-sandbox", "order.placed"))
			number, _ := f.order(t, us)
			require.Equal(t, number, <-numbers, "by its webhook")

			number = f.missed(t)
			stop()
			setup, numbers = f.orders(every)
			running(t, f.open(t, setup))
			assert.Equal(t, number, <-numbers)
		})
	}
}

// A clinic is reconciled as any of its connected users, and one that connects while the program
// runs is included.
func TestReconcilesAsAnyConnectedUser(t *testing.T) {
	t.Parallel()
	f := newReadmeFixture(t)
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

// Once a user has connected with another account, the reconciler sends no request with the
// token of the first one.
func TestReconcilerFollowsReconnectedUser(t *testing.T) {
	t.Parallel()
	f := newReadmeFixture(t)
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
			answer, err := platform.Browser(person).Authorize(t.Context(), f.server.URL+"/dispensary/connect?return_to=/healthz")
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
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

// A clinic without a connected user is reported once in the log, and shown in the stats.
func TestClinicWithoutConnectedUser(t *testing.T) {
	t.Parallel()
	f := newReadmeFixture(t)
	setup, _ := f.orders(time.Hour)
	runs := make(chan error, 10)
	setup.Reconcile.Observer.RunEnd = func(_ context.Context, _ reconcile.Report, err error) { runs <- err }
	var log logtest.Buffer
	setup.Logger = slog.New(slog.NewTextHandler(io.Writer(&log), nil))
	i := f.open(t, setup)
	f.connect(t, us, "dr-1")
	f.platforms[us].Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "oauth.revoke"})
	require.Error(t, i.Accounts.Disconnect(t.Context(), "dr-1"), "the user is marked, and the clinic stays known")
	running(t, i)
	require.Error(t, <-runs)
	require.Eventually(t, func() bool { return len(i.Reconcilers[us].Stats().Failing) == 1 }, time.Minute, time.Millisecond)
	failing := i.Reconcilers[us].Stats().Failing[0]
	assert.True(t, failing.Disconnected())
	for _, line := range strings.Split(log.String(), "\n") {
		assert.NotContains(t, line, "level=ERROR")
	}
	assert.Equal(t, 1, strings.Count(log.String(), "no user of the clinic is connected"))
}

func TestDisableReconcile(t *testing.T) {
	t.Parallel()
	f := newReadmeFixture(t)
	setup, _ := f.orders(time.Hour)
	setup.DisableReconcile = true
	i := f.open(t, setup)
	assert.Empty(t, i.Reconcilers)
	assert.NotNil(t, i.Webhooks)
}

// Rejected requests are an outage once the platform's delivery log, read as any connected user,
// has a failed delivery. Requests of a stranger are none.
func TestDeliveryLogConfirmsOutage(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]bool{"the platform": true, "a stranger": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newReadmeFixture(t)
			setup, _ := f.orders(time.Hour)
			var later atomic.Int64
			setup.Webhooks.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
			outages, seen := make(chan webhook.Outage, 10), make(chan webhook.Observation, 100)
			setup.Outage = func(_ context.Context, _ dispensary.Environment, o webhook.Outage) { outages <- o }
			setup.Webhooks.Observer.RequestEnd = func(_ context.Context, o webhook.Observation) { seen <- o }
			i := f.open(t, setup)
			f.connect(t, us, "dr-1")
			if failed { // the secret is rotated on the dashboard alone
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
			for range 4 {
				request := httptest.NewRequest(http.MethodPost, "/webhooks/us-sandbox", strings.NewReader("{}"))
				request.Header.Set("SVC-Signature", webhook.Sign(dispensary.NewSecret("forged"), setup.Webhooks.Now(), []byte("{}")))
				handler.ServeHTTP(httptest.NewRecorder(), request)
				<-seen
				later.Add(int64(10 * time.Minute))
			}
			if failed {
				assert.Equal(t, webhook.OutageKindRejecting, (<-outages).Kind)
			}
			assert.Empty(t, outages)
		})
	}
}
