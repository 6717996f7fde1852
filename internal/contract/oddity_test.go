package contract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

const linkPatient = `{
	"id": "1", "first_name": "A", "last_name": "B", "email": "a@example.org",
	"date_of_birth": null, "gender": null, "discount": 0, "total_discount": 10,
	"mobile_number": null, "text_message_notification": 0
}`

const eventPlan = `{
	"id": "1", "state": "active", "active": "true", "patient": {"id": "1"}, "practitioner": {"id": "1"},
	"available_at": "2026-03-02", "created_at": "2026-03-02T09:00:00Z", "updated_at": "2026-03-02T09:00:00Z",
	"invitation_url": null, "personal_message": null, "metadata": {"id": null},
	"recommendations": [{"variant_id": "1", "refill": "true", "units_to_purchase": "10", "dosage": DOSAGE}]
}`

const bareOrder = `{
	"id": "1", "order_number": "R1", "completed_at": "2026-03-02T09:00:00-05:00",
	"msrp_total": "1.00", "item_total": "1.00", "payment_total": "1.00",
	"treatment_plan_ids": [], "patient_id": "1", "line_items": []
}`

// happened is the answer of events.get, and a delivery without integration_id.
func happened(eventType, data string) []byte {
	return []byte(`{"event": {
		"id": "1", "type": "` + eventType + `", "created_at": "2026-03-02T09:00:00Z", "clinic_id": "1", "data": ` + data + `
	}}`)
}

// The link's patient has 0 for a boolean, and no other patient has.
func TestZeroForABoolean(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	link := `{"dynamic_links": {
		"redirect_url": "https://dispensary.example/", "patient": ` + linkPatient + `,
		"treatment_plan": {"id": "1", "state": "draft", "available_at": null}
	}}`
	assert.Empty(t, check.CheckBody("dynamic_links.get", 200, []byte(link)))
	patient := strings.Replace(linkPatient, "\n}", `, "metadata": {"id": null} }`, 1)
	assert.Equal(t, "patients.get: response body /patient/text_message_notification: type",
		text(check.CheckBody("patients.get", 200, []byte(`{"patient": `+patient+`}`))))
}

// Event data spells the dosage in both ways, and has texts for booleans and numbers.
func TestSpellingsOfTheDosage(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for dosage, violation := range map[string]string{
		`{"recommended_amount": "1", "recommended_frequency": "f", "recommended_duration": null, "format": "gel", "additional_info": ""}`: "",
		`{"amount": "1", "frequency": "f", "duration": null, "format": "gel", "additional_info": ""}`:                                     "",
		`null`: "",
		`{"amount": "1", "recommended_frequency": "f", "recommended_duration": null, "format": "gel", "additional_info": ""}`: "/dosage/",
	} {
		event := happened("treatment_plan.created", `{"treatment_plan": `+strings.Replace(eventPlan, "DOSAGE", dosage, 1)+`}`)
		for _, found := range []string{
			text(check.CheckBody("events.get", 200, event)),
			text(check.CheckWebhookBody("treatment_plan.created", event)),
		} {
			assert.Contains(t, found, violation)
			assert.Equal(t, violation == "", found == "", "%s: %s", dosage, found)
		}
	}
}

// Orders in event data are bare or wrapped; either envelope may hold the event.
func TestWrappedAndBareEventData(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for _, data := range []string{bareOrder, `{"order": ` + bareOrder + `}`} {
		event := happened("order.placed", data)
		assert.Empty(t, check.CheckBody("events.get", 200, event))
		assert.Empty(t, check.CheckWebhookBody("order.placed", event))
		assert.Empty(t, check.CheckWebhookBody("order.placed", []byte(`{"event_payload": `+string(event)+`}`)))
	}
	assert.Contains(t, text(check.CheckWebhookBody("order.placed", happened("order.placed", `{}`))), "order.placed: request body /event/data/")
}

func TestKeptBodiesOfNothingKnown(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	assert.Equal(t, "patients.delete: response operation: unknown", text(check.CheckBody("patients.delete", 200, nil)))
	assert.Equal(t, "patients.create: response status 200: unknown", text(check.CheckBody("patients.create", 200, nil)))
	assert.Equal(t, "order.shipped: request operation: unknown", text(check.CheckWebhookBody("order.shipped", nil)))
}
