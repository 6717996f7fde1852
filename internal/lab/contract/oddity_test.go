package contract_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// reply returns a response with headers, given as pairs of name and value. An empty value deletes
// the header.
func reply(status int, header ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{
		"X-Request-Id": {"r-1"}, "Content-Type": {"application/json; charset=utf-8"},
	}}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			resp.Header.Del(header[i])
		}
	}
	return resp
}

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

// happened returns a response body of events.get, and of a webhook without integration_id.
func happened(eventType, data string) []byte {
	return []byte(`{"event": {
		"id": "1", "type": "` + eventType + `", "created_at": "2026-03-02T09:00:00Z", "clinic_id": "1", "data": ` + data + `
	}}`)
}

// delivered returns the violations of a webhook with this body.
func delivered(t *testing.T, eventType string, body []byte) []string {
	t.Helper()
	req := httptest.NewRequest(http.MethodPost, "https://ehr.example.com/hook", nil)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("SVC-Signature", "t=1772442000,v1="+strings.Repeat("0a", 32))
	return loaded(t).CheckWebhook(eventType, req, body, nil, nil)
}

// The empty request before an event requests the challenge.
func TestProbeFollowsContract(t *testing.T) {
	t.Parallel()
	assert.Empty(t, delivered(t, "order.placed", nil))
}

// Only the patient of a dynamic link has 0 instead of a boolean.
func TestLinkPatientHasZeroForBoolean(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	link := `{"dynamic_links": {
		"redirect_url": "https://dispensary.example/", "patient": ` + linkPatient + `,
		"treatment_plan": {"id": "1", "state": "draft", "available_at": null}
	}}`
	assert.Empty(t, check.CheckResponse("dynamic_links.get", reply(200), []byte(link)))
	patient := strings.Replace(linkPatient, "\n}", `, "metadata": {"id": null} }`, 1)
	assert.Len(t, check.CheckResponse("patients.get", reply(200), []byte(`{"patient": `+patient+`}`)), 1)
}

// Event data has both spellings of the dosage, and texts instead of booleans and numbers.
func TestEventDataHasBothDosageSpellings(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for dosage, good := range map[string]bool{
		`{"recommended_amount": "1", "recommended_frequency": "f", "recommended_duration": null, "format": "gel", "additional_info": ""}`: true,
		`{"amount": "1", "frequency": "f", "duration": null, "format": "gel", "additional_info": ""}`:                                     true,
		`null`: true,
		`{"amount": "1", "recommended_frequency": "f", "recommended_duration": null, "format": "gel", "additional_info": ""}`: false,
	} {
		event := happened("treatment_plan.created", `{"treatment_plan": `+strings.Replace(eventPlan, "DOSAGE", dosage, 1)+`}`)
		assert.Equal(t, good, len(check.CheckResponse("events.get", reply(200), event)) == 0, dosage)
		assert.Equal(t, good, len(delivered(t, "treatment_plan.created", event)) == 0, dosage)
	}
}

// Orders in event data are bare or wrapped. Both envelopes may contain the event.
func TestEventDataMayBeWrapped(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for _, data := range []string{bareOrder, `{"order": ` + bareOrder + `}`} {
		event := happened("order.placed", data)
		assert.Empty(t, check.CheckResponse("events.get", reply(200), event))
		assert.Empty(t, delivered(t, "order.placed", event))
		assert.Empty(t, delivered(t, "order.placed", []byte(`{"event_payload": `+string(event)+`}`)))
	}
	assert.NotEmpty(t, delivered(t, "order.placed", happened("order.placed", `{}`)))
}

// A value of two types is checked as strictly as a value of one type.
func TestTwoTypesAreCheckedStrictly(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	token := `{"oauth":{"access_token":"a","token_type":"Bearer","expires_in":%s,"refresh_token":"r","scope":"catalog:read",` +
		`"created_at":"2026-03-02T09:00:00Z","resource_owner":{"id":"1","type":"Practitioner"}}}`
	for value, good := range map[string]bool{
		`7200`: true, `"7200"`: true, `7200.5`: false, `true`: false, `null`: false, `{}`: false, `"soon"`: false, `"-1"`: false, `""`: false,
	} {
		assert.Equal(t, good, len(check.CheckResponse("oauth.token", reply(200), fmt.Appendf(nil, token, value))) == 0, value)
	}
	for value, good := range map[string]bool{`"1001"`: true, `1001`: true, `1.5`: false, `null`: false, `[]`: false} {
		body := fmt.Appendf(nil, `{"errors":[{"code":%s,"message":"Slow down"}]}`, value)
		assert.Equal(t, good, len(check.CheckResponse("patients.update", reply(429), body)) == 0, value)
	}
}
