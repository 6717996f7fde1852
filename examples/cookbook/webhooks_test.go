package cookbook_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// The event is in a file before it is acknowledged.
func Example_receiveWebhooks() {
	platform := start()
	defer platform.Close()
	folder, err := os.MkdirTemp("", "inbox")
	must(err)
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "inbox.db")
	secrets := []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)}
	challenge := dispensary.NewSecret(platform.Application().ChallengeToken)
	keys, err := seal.ParseKeyRing(dispensary.NewSecret("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=")) // openssl rand -base64 32
	must(err)
	shipped := make(chan string)
	ship := func(order string) error {
		shipped <- order
		return nil
	}

	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		return ship(order.Object.OrderNumber) // an error retries the event later
	})
	inbox, err := sqlinbox.Open(file, sqlinbox.Config{
		Seal: keys, // encrypts the stored events, which contain patient data
		Work: webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient},
	})
	must(err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: dispensary.USSandbox, Secrets: secrets, Challenge: challenge, Inbox: inbox,
	})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/dispensary", handler)
	ehr := httptest.NewServer(mux)
	defer ehr.Close()
	must(platform.Webhooks.Register(ehr.URL + "/webhooks/dispensary")) // in the dashboard

	_, _, err = platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
	must(err)
	fmt.Println("order", <-shipped)
	must(inbox.Close(context.Background()))
	// Output: order R410000004
}

// A new receiver replaces an old one that stored event IDs in a table. The old receiver handled an order, its
// response was lost, and the platform retries the event.
func Example_replaceReceiver() {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	platform := start(dispensarytest.WithClock(clock))
	defer platform.Close()
	folder, err := os.MkdirTemp("", "inbox")
	must(err)
	defer func() { _ = os.RemoveAll(folder) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "shop.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)")
	must(err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE webhook_events (event_id TEXT PRIMARY KEY)")
	must(err)
	must(platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var payload struct{ Event struct{ ID string } }
		must(json.NewDecoder(r.Body).Decode(&payload))
		_, err := db.Exec("INSERT INTO webhook_events VALUES (?)", payload.Event.ID) // and ship the order
		must(err)
		w.WriteHeader(http.StatusBadGateway) // from a proxy, instead of the old receiver's response
	})))
	patient := platform.Patients.All()[0].ID
	_, _, err = platform.Orders.Place(patient, model.OrderCreate{})
	must(err)
	clock.Advance(0) // the platform sends the event

	// Stop the old receiver before the new one starts, so the new one finds all old events.
	handled := make(chan string)
	var router webhook.Router
	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
		var before bool // drop the table after 30 days, because the platform repeats no older event
		err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM webhook_events WHERE event_id = ?)", order.ID).Scan(&before)
		if err != nil {
			return err
		}
		handled <- fmt.Sprintln(order.Object.OrderNumber, "already handled:", before)
		return nil
	})
	must(sqlinbox.Migrate(context.Background(), db)) // adds the tables of the inbox
	keys, err := seal.ParseKeyRing(dispensary.NewSecret("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="))
	must(err)
	inbox, err := sqlinbox.New(db, sqlinbox.Config{Seal: keys, Work: webhook.Work{Handle: router.Dispatch}})
	must(err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: platform.Site().Environment,
		Secrets:     []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)},
		Challenge:   dispensary.NewSecret(platform.Application().ChallengeToken),
		Inbox:       inbox, Now: clock.Now,
	})
	must(err)
	must(platform.Webhooks.RegisterHandler(handler))
	clock.Advance(time.Minute) // the platform retries
	fmt.Print(<-handled)
	_, _, err = platform.Orders.Place(patient, model.OrderCreate{})
	must(err)
	clock.Advance(0)
	fmt.Print(<-handled)
	must(inbox.Close(context.Background()))
	// Output:
	// R410000004 already handled: true
	// R410000005 already handled: false
}

// Two applications share one URL. The path selects the tenant.
func Example_tenants() {
	us, canada := start(), start(dispensarytest.WithEnvironment(api.CanadaSandbox))
	defer us.Close()
	defer canada.Close()
	tenants := map[string]*webhook.Tenant{}
	for name, platform := range map[string]*dispensarytest.Server{"us": us, "canada": canada} {
		tenant, err := webhook.NewTenant(webhook.TenantConfig{
			Name:        name,
			Environment: platform.Site().Environment,
			Secrets:     []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)},
			Challenge:   dispensary.NewSecret(platform.Application().ChallengeToken),
		})
		must(err)
		tenants[name] = tenant
	}

	handled := make(chan dispensary.Environment)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: func(ctx context.Context, _ events.Event) error {
		handled <- webhook.HandlingFrom(ctx).Key.Environment
		return nil
	}}})
	must(err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Inbox:  inbox, // event keys contain the environment
		Tenant: func(r *http.Request) (*webhook.Tenant, error) { return tenants[r.PathValue("application")], nil },
	})
	must(err)
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/{application}", handler)
	ehr := httptest.NewServer(mux)
	defer ehr.Close()

	for name, platform := range map[string]*dispensarytest.Server{"us": us, "canada": canada} {
		must(platform.Webhooks.Register(ehr.URL + "/webhooks/" + name))
		_, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
		must(err)
		fmt.Println("order in", <-handled)
	}
	must(inbox.Close(context.Background()))
	// Unordered output:
	// order in us/sandbox
	// order in ca/sandbox
}

// The secret is rotated in three steps without rejected webhooks. Add the new secret to the program, change
// the dashboard, then remove the old secret.
func Example_rotateWebhookSecret() {
	oldSecret, newSecret := dispensary.NewSecret("whsec_last_year_0123456789"), dispensary.NewSecret("whsec_this_year_0123456789")
	body := []byte(`{"event":{"id":"evt_1","type":"clinic_key.activated"}}`)
	for _, step := range []struct {
		secrets  []dispensary.Secret // of webhook.HandlerConfig, or of a verifier by itself
		signedBy dispensary.Secret   // the secret in the dashboard
	}{
		{[]dispensary.Secret{newSecret, oldSecret}, oldSecret},
		{[]dispensary.Secret{newSecret, oldSecret}, newSecret},
		{[]dispensary.Secret{newSecret}, newSecret},
		{[]dispensary.Secret{newSecret}, oldSecret}, // no longer used
	} {
		verifier, err := webhook.NewVerifier(webhook.VerifierConfig{Secrets: step.secrets})
		must(err)
		fmt.Println(verifier.Verify(webhook.Sign(step.signedBy, time.Now(), body), body))
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// webhook: signature does not match
}

// A late update does not restore an old state, because the handler reads the plan instead of the event.
func Example_outOfOrder() {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	platform := start(dispensarytest.WithClock(clock))
	defer platform.Close()
	client := platform.Client(platform.Users()[0])

	handled := make(chan string)
	var router webhook.Router
	router.OnTreatmentPlanUpdated(func(ctx context.Context, e events.TreatmentPlanEvent) error {
		plan, err := client.TreatmentPlans.Get(ctx, e.Object.ID)
		if err != nil {
			return err
		}
		handled <- "the plan is " + string(plan.State)
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch, Order: webhook.ByObject}})
	must(err)
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: platform.Site().Environment,
		Secrets:     []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)},
		Challenge:   dispensary.NewSecret(platform.Application().ChallengeToken),
		Inbox:       inbox, Now: clock.Now,
	})
	must(err)
	must(platform.Webhooks.RegisterHandler(handler))

	platform.Fault(model.Fault{Effect: model.EffectDeliveryReordered, Delay: time.Minute, Times: 1})
	plan := platform.Plans.All()[0].ID
	_, _, err = platform.Plans.Update(plan, model.PlanUpdate{}) // arrives late
	must(err)
	_, _, err = platform.Plans.Cancel(plan)
	must(err)
	fmt.Println(<-handled)
	clock.Advance(time.Minute)
	fmt.Println(<-handled)
	must(inbox.Close(context.Background()))
	// Output:
	// the plan is cancelled
	// the plan is cancelled
}

// The endpoint failed until the platform disabled it. The reconciler recovers the missed events.
func Example_disabledEndpoint() {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))
	platform := start(dispensarytest.WithClock(clock))
	defer platform.Close()
	down := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	must(platform.Webhooks.RegisterHandler(down))
	for range 3 {
		_, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{})
		must(err)
		clock.Advance(12 * time.Hour)
	}
	endpoint, _ := platform.Webhooks.Endpoint()
	fmt.Println("disabled:", endpoint.Disabled)

	handled := make(chan string, 10)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		handled <- order.Object.OrderNumber
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	must(err)
	must(platform.Webhooks.Enable()) // in the dashboard, after the receiver works again
	client := platform.Client(platform.Users()[0])
	practice, err := client.Clinic.Get(context.Background())
	must(err)
	clinics, err := reconcile.New(reconcile.Config{
		Environment: platform.Site().Environment, Inbox: inbox, List: reconcile.ClinicIDs(practice.ID),
		Open: func(context.Context, string, api.Limiter) (reconcile.Clinic, error) {
			return reconcile.Clinic{Events: client.Events, Integrations: reconcile.Integrations(practice.IntegrationID)}, nil
		},
	})
	must(err)
	report, err := clinics.Run(context.Background(), practice.ID)
	must(err)
	must(inbox.Close(context.Background()))
	close(handled)
	fmt.Println(strings.Split(report.String(), ";")[0])
	for number := range handled {
		fmt.Println("order", number)
	}
	// Unordered output:
	// disabled: true
	// recovered 3 of 3 missed
	// order R410000004
	// order R410000005
	// order R410000006
}
