package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
)

// A complete receiver has functions for its events, an inbox that stores and handles them, and a
// handler in the program's server. The second half acts as the platform: it signs and sends an
// event.
func ExampleHandler() {
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		fmt.Println("handled order", order.Object.OrderNumber, "of clinic", order.ClinicID)
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: api.USSandbox,
		Secrets:     []api.Secret{api.NewSecret("the webhook secret key")},
		Challenge:   api.NewSecret("the challenge token"),
		Inbox:       inbox,
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/dispensary", handler)
	server := httptest.NewServer(mux)
	defer server.Close()

	body := `{"event":{"id":"evt_1","type":"order.placed","clinic_id":"cl_1","integration_id":"in_1","data":{"order":{"id":"or_1","order_number":"R100"}}}}`
	signature := webhook.Sign(api.NewSecret("the webhook secret key"), time.Now(), []byte(body))
	forged := webhook.Sign(api.NewSecret("a guess"), time.Now(), []byte(body))
	for _, header := range []string{signature, signature, forged} {
		request, err := http.NewRequest(http.MethodPost, server.URL+"/webhooks/dispensary", strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set(webhook.SignatureHeader, header)
		response, err := server.Client().Do(request)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			log.Fatal(err)
		}
		_ = response.Body.Close()
		fmt.Println(response.StatusCode, strings.TrimSpace(string(body)))
	}
	if err := inbox.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// 200 {"challenge":"the challenge token"}
	// 200 {"challenge":"the challenge token"}
	// 401 Unauthorized
	// handled order R100 of clinic cl_1
}

// A router with functions for two event types, a default for all others, and middleware around all
// of them.
func ExampleRouter() {
	var router webhook.Router
	router.Use(func(next webhook.HandlerFunc) webhook.HandlerFunc {
		return func(ctx context.Context, event events.Event) error {
			err := next(ctx, event)
			fmt.Println(event, "→", err)
			return err
		}
	})
	router.OnPatientUpdated(func(_ context.Context, event events.PatientEvent) error {
		fmt.Println("patient", event.Object.ID, "has another e-mail")
		return nil
	})
	router.OnTreatmentPlanUpdated(func(_ context.Context, event events.TreatmentPlanEvent) error {
		fmt.Println("plan", event.Object.ID, "is", event.Object.State)
		return nil
	})
	router.Default(func(_ context.Context, event events.Event) error {
		fmt.Println("nothing to do for", event.Type)
		return nil
	})

	for _, event := range []events.Event{
		{ID: "evt_1", Type: events.TypePatientUpdated, Data: json.RawMessage(`{"patient":{"id":"pa_1","email":"ada@example.com"}}`)},
		{ID: "evt_2", Type: events.TypeTreatmentPlanUpdated, Data: json.RawMessage(`{"treatment_plan":{"id":"tp_1","state":"cancelled"}}`)},
		{ID: "evt_3", Type: events.TypeTreatmentPlanUpdated, Data: json.RawMessage(`["tp_1"]`)},
		{ID: "evt_4", Type: "invoice.paid"},
	} {
		_ = router.Dispatch(context.Background(), event)
	}
	// Output:
	// patient pa_1 has another e-mail
	// patient.updated "evt_1" → <nil>
	// plan tp_1 is cancelled
	// treatment_plan.updated "evt_2" → <nil>
	// treatment_plan.updated "evt_3" → events: data cannot be decoded: treatment_plan.updated "evt_3"
	// nothing to do for invoice.paid
	// invoice.paid "evt_4" → <nil>
}

// The inbox keeps events whose handler failed. List these dead letters, fix the cause, and replay
// them.
func Example_deadLetters() {
	repaired := false
	died := make(chan webhook.Key, 1)
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{
		Retry: webhook.RetryPolicy{MaxAttempts: 2, BackOff: time.Millisecond},
		Handle: func(_ context.Context, event events.Event) error {
			if !repaired {
				return webhook.WithReason("no_clinic", errors.New("no such clinic"))
			}
			fmt.Println("handled", event.ID)
			return nil
		},
		Observer: webhook.Observer{AttemptEnd: func(_ context.Context, attempt webhook.Attempt) {
			if attempt.Result == webhook.ResultDead {
				died <- attempt.Key
			}
		}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = inbox.Accept(context.Background(), webhook.Delivery{
		Key:  webhook.Key{Environment: api.USSandbox, EventID: "evt_1"},
		Type: events.TypeClinicKeyActivated,
		Body: []byte(`{"event":{"id":"evt_1","type":"clinic_key.activated"}}`),
	})
	if err != nil {
		log.Fatal(err)
	}

	key := <-died
	dead := engine.Filter{States: []engine.State{engine.StateDead}}
	for letter, err := range engine.All(context.Background(), inbox, dead) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(letter, "after", letter.Attempts, "attempts:", letter.Reason)
	}
	letter, err := inbox.Open(context.Background(), key) // with its body
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(letter.Err)

	repaired = true
	counts, err := inbox.Count(context.Background(), dead, 1000) // up to the first 1,000
	if err != nil {
		log.Fatal(err)
	}
	dead.Until = counts.Until // excludes events that die later
	if _, err := inbox.Replay(context.Background(), dead); err != nil {
		log.Fatal(err)
	}
	if err := inbox.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// clinic_key.activated us/sandbox/evt_1/ after 2 attempts: no_clinic
	// no such clinic
	// handled evt_1
}

// An alarm reports failing deliveries while there is still time to act. Set its Observe method as
// RequestEnd of the handler's Observer. This example simulates 14 hours of failures on a fake
// clock.
func ExampleAlarm() {
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	alarm, err := webhook.NewAlarm(webhook.AlarmConfig{
		After: []time.Duration{time.Hour, 12 * time.Hour},
		Now:   func() time.Time { return now },
		Notify: func(_ context.Context, outage webhook.Outage) {
			if outage.Over {
				fmt.Println("webhooks work again")
				return
			}
			fmt.Printf("%d failures in %s: %s\n", outage.Failures, outage.Age(), outage.Reason)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for range 14 {
		alarm.Observe(context.Background(), webhook.Observation{Outcome: webhook.OutcomeUnavailable, Err: webhook.ErrInboxTimeout})
		now = now.Add(time.Hour)
	}
	alarm.Observe(context.Background(), webhook.Observation{Outcome: webhook.OutcomeAccepted})
	// Output:
	// 3 failures in 2h0m0s: webhook: inbox took too long
	// 13 failures in 12h0m0s: webhook: inbox took too long
	// webhooks work again
}
