package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Functions by type of event, a default for all others, and middleware around
// everything.
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
		fmt.Println("patient", event.Data.ID, "has another e-mail")
		return nil
	})
	router.OnTreatmentPlanUpdated(func(_ context.Context, event events.TreatmentPlanEvent) error {
		fmt.Println("plan", event.Data.ID, "is", event.Data.State)
		return nil
	})
	router.Default(func(_ context.Context, event events.Event) error {
		fmt.Println("nothing to do for", event.Type)
		return nil
	})

	for _, event := range []events.Event{
		{ID: "evt_1", Type: events.PatientUpdated, Data: json.RawMessage(`{"patient":{"id":"pa_1","email":"ada@example.com"}}`)},
		{ID: "evt_2", Type: events.TreatmentPlanUpdated, Data: json.RawMessage(`{"treatment_plan":{"id":"tp_1","state":"cancelled"}}`)},
		{ID: "evt_3", Type: events.TreatmentPlanUpdated, Data: json.RawMessage(`{"treatment_plan":["tp_1"]}`)},
		{ID: "evt_4", Type: "invoice.paid"},
	} {
		_ = router.Dispatch(context.Background(), event)
	}
	// Output:
	// patient pa_1 has another e-mail
	// patient.updated "evt_1" → <nil>
	// plan tp_1 is cancelled
	// treatment_plan.updated "evt_2" → <nil>
	// treatment_plan.updated "evt_3" → events: data cannot be decoded: treatment_plan.updated "evt_3", field id
	// nothing to do for invoice.paid
	// invoice.paid "evt_4" → <nil>
}
