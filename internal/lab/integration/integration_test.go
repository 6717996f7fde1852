package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// With each kind of store and inbox, practitioners of two countries connect, handlers call the API
// for them, and the integration finds an order from before the webhook URL was registered.
func TestIntegrationServesTwoCountries(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]func(t *testing.T) (store, inbox string){
		"memory":     func(*testing.T) (string, string) { return "memory:", "memory:" },
		"SQLite":     func(t *testing.T) (string, string) { path := file(t); return "sqlite:" + path, "sqlite:" + path },
		"PostgreSQL": func(t *testing.T) (string, string) { address := postgrestest.Schema(t); return address, address },
		"MySQL": func(t *testing.T) (string, string) {
			return "mysql:" + sqltest.Database(t, "mysql"), "sqlite:" + file(t)
		},
		"PostgreSQL, SQLite": func(t *testing.T) (string, string) { return postgrestest.Schema(t), "sqlite:" + file(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).kept(kept(t))
			handled := make(chan string, 10)
			var i *integration.Integration
			var router webhook.Router
			router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
				environment := webhook.HandlingFrom(ctx).Key.Environment
				client, err := i.Accounts.Client(ctx, string(environment[:2])+":dr-1")
				if err != nil {
					return err
				}
				read, err := client.Clinic.Orders.Get(ctx, order.Object.ID)
				if err == nil {
					handled <- environment.String() + " " + read.OrderNumber
				}
				return err
			})
			setup, reconciled, ended := f.setup(router.Dispatch), make(chan string, 10), make(chan webhook.Result, 10)
			setup.Work.Observer.AttemptEnd = func(_ context.Context, a webhook.Attempt) { ended <- a.Result }
			setup.Reconcile.Observer.RunEnd = func(_ context.Context, report reconcile.Report, _ error) { reconciled <- report.Name }
			i = f.open(t, setup)
			assert.Len(t, i.Reconcilers, 2)
			assert.Equal(t, "integration.Integration{us/sandbox ca/sandbox}", fmt.Sprintf("%+v", i))

			for _, environment := range []dispensary.Environment{us, canada} {
				f.connect(t, environment, string(environment[:2])+":dr-1")
			}
			expected := map[string]bool{}
			for _, environment := range []dispensary.Environment{us, canada} {
				missed, _ := f.order(t, environment) // no URL is registered yet
				require.NoError(t, f.platforms[environment].Webhooks.Register(f.server.URL+"/webhooks/"+strings.ReplaceAll(environment.String(), "/", "-"), "order.placed"))
				sent, event := f.order(t, environment)
				require.NoError(t, f.platforms[environment].Webhooks.WaitDelivered(t.Context(), event.ID))
				expected[environment.String()+" "+missed], expected[environment.String()+" "+sent] = true, true
			}
			assert.Empty(t, handled, "handled events before Run")
			code, found := f.ready(t, "/readyz?strict")
			assert.Equal(t, http.StatusOK, code)
			assert.Equal(t, map[string]string{
				"store": "ok", "inbox": "ok",
				"alarm us/sandbox": "ok", "alarm ca/sandbox": "ok", "refresh us/sandbox": "ok", "refresh ca/sandbox": "ok",
				"reconcile us/sandbox": "ok", "reconcile ca/sandbox": "ok",
			}, found)

			stop := running(t, i)
			for range 4 {
				delete(expected, <-handled)
				assert.Equal(t, webhook.ResultHandled, <-ended)
			}
			assert.Empty(t, expected)
			assert.ElementsMatch(t, []string{f.clinic(us), f.clinic(canada)}, []string{<-reconciled, <-reconciled})
			for page, texts := range map[string][]string{
				"/": {"<title>Overview · us/sandbox, ca/sandbox · Webhooks</title>", "has no current failure in receiving webhooks", "Handled in the last hour"}, "/runs": {f.clinic(us), f.clinic(canada), "<h2>us/sandbox</h2>", "Last pass"}, "/accounts": {`<dt>Connected</dt><dd class="big">2</dd>`},
			} {
				w := httptest.NewRecorder()
				i.Operations.ServeHTTP(w, httptest.NewRequest(http.MethodGet, page, nil))
				for _, text := range texts {
					assert.Contains(t, w.Body.String(), text, page)
				}
				assert.NotContains(t, w.Body.String(), "handled <b>0</b>", "the page counts attempts")
			}
			stop()
			for _, platform := range f.platforms {
				platform.Journal.CheckNoUnexpected(t)
			}
		})
	}
}

// One file contains tokens, events and the program's own tables. A second process handles the
// events that the first one left, and its users are still connected.
func TestSecondProcessContinuesWithFile(t *testing.T) {
	t.Parallel()
	f, _ := newFileFixture(t)
	handled := make(chan error, 10)
	var router webhook.Router
	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
		err := sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO orders (number) VALUES (?)", order.Object.OrderNumber)
			return err
		})
		handled <- err
		return err
	})

	first := f.open(t, f.setup(router.Dispatch)) // never runs
	exec(t, first.DB, "CREATE TABLE orders (number TEXT PRIMARY KEY)")
	f.connect(t, us, "us:dr-1")
	require.NoError(t, f.platforms[us].Webhooks.Register(f.server.URL+"/webhooks/us-sandbox", "order.placed"))
	number, event := f.order(t, us)
	require.NoError(t, f.platforms[us].Webhooks.WaitDelivered(t.Context(), event.ID))
	require.NoError(t, first.Shutdown(t.Context()))
	assert.Error(t, first.DB.PingContext(t.Context()), "DB after Shutdown")

	second := f.open(t, f.setup(router.Dispatch))
	stop := running(t, second)
	require.NoError(t, <-handled)
	var stored string
	require.NoError(t, second.DB.QueryRowContext(t.Context(), "SELECT number FROM orders").Scan(&stored))
	assert.Equal(t, number, stored)
	client, err := second.Accounts.Client(t.Context(), "us:dr-1")
	require.NoError(t, err)
	_, err = client.Clinic.Get(t.Context())
	require.NoError(t, err)
	stop()
}

func TestCallsSendClinicKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	f.variables["DISPENSARY_US_SANDBOX_CLINIC_KEY"] = "key-of-no-clinic"
	setup := f.setup(succeed)
	var asked []dispensary.Environment
	setup.Accounts.Options = func(environment dispensary.Environment) []dispensary.Option {
		asked = append(asked, environment)
		return nil
	}
	i := f.open(t, setup)
	assert.ElementsMatch(t, []dispensary.Environment{us, canada}, asked, "calls of the program's own Options")
	f.connect(t, us, "us:dr-1")
	f.connect(t, canada, "ca:dr-1")
	client, err := i.Accounts.Client(t.Context(), "us:dr-1")
	require.NoError(t, err)
	_, err = client.Clinic.Get(t.Context())
	require.Error(t, err, "unknown clinic key")
	client, err = i.Accounts.Client(t.Context(), "ca:dr-1")
	require.NoError(t, err)
	_, err = client.Clinic.Get(t.Context())
	require.NoError(t, err)
}

// The program and /readyz learn of an outage. After its end, the integration looks for missed
// webhooks. Forged requests are not an outage.
func TestOutageIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	var later atomic.Int64 // offset of the clock
	var broken atomic.Bool
	outages, runs := make(chan webhook.Outage, 10), make(chan reconcile.Report, 10)
	seen := make(chan webhook.Observation, 100)
	setup := f.setup(succeed)
	setup.Webhooks.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	setup.Webhooks.Observer.RequestEnd = func(_ context.Context, o webhook.Observation) { seen <- o }
	setup.Telemetry = &telemetry{seen: map[string]int{}, wrap: func(inbox webhook.Inbox) webhook.Inbox { return unreliable{inbox, &broken} }}
	setup.Outage = func(_ context.Context, environment dispensary.Environment, outage webhook.Outage) {
		assert.Equal(t, canada, environment)
		outages <- outage
	}
	setup.Reconcile.Observer.RunEnd = func(_ context.Context, report reconcile.Report, _ error) { runs <- report }
	i := f.open(t, setup)
	f.connect(t, canada, "ca:dr-1")
	go func() { _ = i.Run(t.Context()) }()
	<-runs
	handler, err := i.WebhooksOf(canada)
	require.NoError(t, err)
	send := func(path, secret string, status int) {
		const body = `{"event":{"id":"evt_1","type":"order.placed"}}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("SVC-Signature", webhook.Sign(dispensary.NewSecret(secret), setup.Webhooks.Now(), []byte(body)))
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode)
		<-seen // the alarm has counted it
	}
	for range 3 {
		send("/webhooks/ca-sandbox", "forged", http.StatusUnauthorized)
		send("/webhooks/other", "forged", http.StatusNotFound)
	}
	code, found := f.ready(t, "/readyz?strict")
	assert.Equal(t, http.StatusOK, code)
	assert.Equal(t, "ok", found["alarm ca/sandbox"])

	broken.Store(true)
	secret := f.platforms[canada].Application().WebhookSecret
	for range 3 {
		send("/webhooks/ca-sandbox", secret, http.StatusServiceUnavailable)
	}
	code, found = f.ready(t, "/readyz")
	assert.Equal(t, http.StatusOK, code, "another replica has the same outage")
	assert.Equal(t, "degraded", found["alarm ca/sandbox"])
	assert.Equal(t, "ok", found["alarm us/sandbox"])
	code, _ = f.ready(t, "/readyz?strict")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	later.Store(int64(20 * time.Minute))
	send("/webhooks/ca-sandbox", secret, http.StatusServiceUnavailable)
	outage := <-outages
	assert.False(t, outage.Over)
	assert.Equal(t, webhook.OutageKindFailing, outage.Kind)

	later.Store(0)
	broken.Store(false)
	require.NoError(t, f.platforms[canada].Webhooks.RegisterHandler(handler, "order.placed"))
	_, event := f.order(t, canada)
	require.NoError(t, f.platforms[canada].Webhooks.WaitDelivered(t.Context(), event.ID))
	assert.True(t, (<-outages).Over)
	<-runs // the end of the outage triggers this run
}

// unreliable is an inbox that fails while broken is set.
type unreliable struct {
	webhook.Inbox
	broken *atomic.Bool
}

func (u unreliable) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if u.broken.Load() {
		return webhook.Receipt{}, errors.New("unavailable")
	}
	return u.Inbox.Accept(ctx, d)
}

// An event with an unknown path can be for any application, so all alarms count it.
func TestUnknownPathRaisesAlarms(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	var later time.Duration
	setup := f.setup(succeed)
	setup.Webhooks.Now = func() time.Time { return time.Now().Add(later) }
	warned := map[dispensary.Environment]int{}
	setup.Outage = func(_ context.Context, environment dispensary.Environment, outage webhook.Outage) {
		assert.Equal(t, webhook.OutageKindRejecting, outage.Kind)
		require.ErrorIs(t, outage.Reason, webhook.ErrUnknownPath)
		warned[environment]++
	}
	i := f.open(t, setup)
	for range 13 {
		const body = `{"event":{"id":"evt_1","type":"order.placed"}}`
		request := httptest.NewRequest(http.MethodPost, "/webhooks/renamed", strings.NewReader(body))
		request.Header.Set("SVC-Signature", webhook.Sign(dispensary.NewSecret("any"), setup.Webhooks.Now(), []byte(body)))
		w := httptest.NewRecorder()
		i.Webhooks.ServeHTTP(w, request)
		assert.Equal(t, http.StatusNotFound, w.Code)
		later += time.Hour
	}
	assert.Equal(t, map[dispensary.Environment]int{us: 1, canada: 1}, warned)
}

func TestWebhooksOfUnconfiguredApplicationFail(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "memory:")
	delete(f.variables, "DISPENSARY_CA_SANDBOX_WEBHOOK_SECRETS")
	delete(f.variables, "DISPENSARY_CA_SANDBOX_WEBHOOK_CHALLENGE")
	i := f.open(t, f.setup(succeed))
	_, err := i.WebhooksOf(canada)
	require.ErrorIs(t, err, api.ErrArgument)
	for path, want := range map[string]int{"/webhooks/us-sandbox": 401, "/webhooks/ca-sandbox": 404, "/webhooks/": 404} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, want, response.StatusCode, path)
	}
}

// A job with the configuration of a service opens no inbox, so it cannot collide with the service.
func TestConfigWithoutWebhooksOpensBesideService(t *testing.T) {
	t.Parallel()
	f := newFixture(t).kept("memory:", "sqlite:"+file(t))
	f.open(t, f.setup(succeed))
	config := f.config(t)
	_, err := integration.Open(t.Context(), config, f.setup(succeed))
	require.ErrorIs(t, err, sqlinbox.ErrInUse)
	job, err := integration.Open(t.Context(), config.WithoutWebhooks(), f.setup(succeed))
	require.NoError(t, err)
	assert.Nil(t, job.Inbox)
	assert.Nil(t, job.Webhooks)
	assert.Empty(t, job.Reconcilers)
	require.NoError(t, job.Shutdown(t.Context()))
	require.NoError(t, config.Check())
	assert.False(t, config.Inbox.IsZero(), "the original stays")
	assert.NotEmpty(t, config.Applications[0].WebhookSecrets)
}
