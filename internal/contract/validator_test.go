package contract_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/contract"
)

func message(method, target string, header ...string) *http.Request {
	req := httptest.NewRequest(method, "https://api.dispensary.example"+target, nil)
	req.Header.Set("Authorization", "Bearer "+canary)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

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

func TestRequestViolations(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for _, c := range []struct {
		name, operation string
		req             *http.Request
		body, want      string
	}{
		{"good", "patients.get", message("GET", "/api/clinic/patients/1"), "", ""},
		{"unknown operation", "patients.delete", message("GET", "/api/clinic/patients/1"), "", "patients.delete: request operation: unknown"},
		{"another method", "patients.get", message("PUT", "/api/clinic/patients/1"), "", "patients.get: request operation: mismatch"},
		{"another path", "patients.list", message("GET", "/api/clinic/practitioners"), "", "patients.list: request operation: mismatch"},
		{"a short path", "patients.list", message("GET", "/"), "", "patients.list: request operation: mismatch"},
		{"no token", "patients.list", message("GET", "/api/clinic/patients", "Authorization", "Basic eDp5"), "", "patients.list: request security Authorization: required"},
		{"a number that is none", "patients.list", message("GET", "/api/clinic/patients?page%5Bsize%5D="+canary), "", "patients.list: request query page[size]: type"},
		{"a number too low", "patients.list", message("GET", "/api/clinic/patients?page%5Bsize%5D=0"), "", "patients.list: request query page[size]: minimum"},
		{"no choice", "orders.list", message("GET", "/api/clinic/orders?order_by="+canary), "", "orders.list: request query order_by: enum"},
		{"no day", "orders.list", message("GET", "/api/clinic/orders?completed_at="+canary), "", "orders.list: request query completed_at: pattern"},
		{"malformed query", "patients.search", message("GET", "/api/clinic/search/patients?query=%zz"), "", "patients.search: request query: malformed"},
		{"missing parameter", "oauth.authorize", message("GET", "/auth/oauth/authorize?redirect_uri=x&response_type=token"), "",
			"oauth.authorize: request query client_id: required\noauth.authorize: request query response_type: const"},
		{"missing body", "patients.create", message("POST", "/api/clinic/patients"), "", "patients.create: request body: required"},
		{"body of nothing", "patients.list", message("GET", "/api/clinic/patients"), "{}", "patients.list: request body: unknown"},
		{"malformed body", "patients.update", message("PATCH", "/api/clinic/patients/1"), canary, "patients.update: request body: malformed"},
		{"two bodies", "patients.update", message("PATCH", "/api/clinic/patients/1"), "{} {}", "patients.update: request body: malformed"},
		{"a form", "patients.update", message("PATCH", "/api/clinic/patients/1", "Content-Type", "application/x-www-form-urlencoded"), "a=b", "patients.update: request header Content-Type: unknown"},
		{"fields", "patients.create", message("POST", "/api/clinic/patients"), `{"email":"` + canary + `","first_name":7,"gender":"` + canary + `"}`,
			"patients.create: request body /email: format\npatients.create: request body /first_name: type\npatients.create: request body /gender: enum\npatients.create: request body /last_name: required"},
		{"too much discount", "patients.create", message("POST", "/api/clinic/patients"), `{"email":"a@example.com","first_name":"A","last_name":"B","discount":100.5}`,
			"patients.create: request body /discount: maximum"},
		{"less than no discount", "patients.update", message("PATCH", "/api/clinic/patients/1"), `{"discount":-1}`, "patients.update: request body /discount: minimum"},
		{"a discount in quotes", "patients.update", message("PATCH", "/api/clinic/patients/1"), `{"discount":"10"}`, "patients.update: request body /discount: type"},
		{"all the discount", "patients.update", message("PATCH", "/api/clinic/patients/1"), `{"discount":100}`, ""},
		{"nothing to recommend", "treatment_plans.create", message("POST", "/api/clinic/patients/1/treatment_plans"), `{"practitioner_id":"1","recommendations":[]}`,
			"treatment_plans.create: request body /recommendations: minItems"},
		{"nothing to buy", "treatment_plans.update", message("PATCH", "/api/clinic/treatment_plans/1"),
			`{"recommendations":[{"variant_id":"1","units_to_purchase":0},{"variant_id":"1","units_to_purchase":"00"},{"variant_id":"1","units_to_purchase":"10"}]}`,
			"treatment_plans.update: request body /recommendations/0/units_to_purchase: minimum\ntreatment_plans.update: request body /recommendations/1/units_to_purchase: pattern"},
		{"one of two", "oauth.token", message("POST", "/api/oauth/token"), `{"grant_type":"refresh_token","client_id":"c","client_secret":"` + canary + `","redirect_uri":"r","code":"` + canary + `"}`,
			"oauth.token: request body /code: unknown\noauth.token: request body /refresh_token: required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := text(check.CheckRequest(c.operation, c.req, []byte(c.body)))
			assert.ElementsMatch(t, strings.Split(c.want, "\n"), strings.Split(found, "\n"))
			assert.NotContains(t, found, canary)
		})
	}
}

func TestResponseViolations(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for _, c := range []struct {
		name, operation string
		resp            *http.Response
		body, want      string
	}{
		{"good", "oauth.revoke", reply(200), `{}`, ""},
		{"unknown operation", "patients.delete", reply(200), `{}`, "patients.delete: response operation: unknown"},
		{"another status", "patients.create", reply(200), `{}`, "patients.create: response status 200: unknown"},
		{"no request id", "oauth.revoke", reply(200, "X-Request-Id", ""), `{}`, "oauth.revoke: response header X-Request-Id: required"},
		{"empty", "oauth.revoke", reply(200), ``, "oauth.revoke: response body: required"},
		{"another type", "oauth.revoke", reply(200, "Content-Type", "text/html"), `<p>`, "oauth.revoke: response header Content-Type: unknown"},
		{"no type", "oauth.revoke", reply(200, "Content-Type", ""), `{}`, "oauth.revoke: response header Content-Type: unknown"},
		{"malformed", "oauth.revoke", reply(200), `{`, "oauth.revoke: response body: malformed"},
		{"two keys to one value", "dynamic_links.new", reply(200), `{"redirect_url":"` + canary + ` "}`, "dynamic_links.new: response body /redirect_url: format"},
		{"no address", "oauth.authorize", reply(303), ``, "oauth.authorize: response header Location: required"},
		{"an escaped place", "oauth.revoke", reply(200), `{"a/b~c":1}`, "oauth.revoke: response body /a~1b~0c: unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := text(check.CheckResponse(c.operation, c.resp, []byte(c.body)))
			assert.Equal(t, c.want, found)
			assert.NotContains(t, found, canary)
		})
	}
	assert.Equal(t, ": response status: unknown", text(check.CheckUnrouted(reply(200), nil)))
}

// Where a value may be one of several things, the report is about the likeliest one.
func TestTheLikeliestAlternativeIsReported(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	meta := `"meta":{"current_page":1,"next_page":null,"prev_page":null,"total_pages":1,"total_count":1}`
	entry := `{"id":"ehr-1","type":"staff","data":{"id":"1","first_name":"A","last_name":"B","email":7,"metadata":{"id":null}}}`
	assert.Equal(t, "metadata.list: response body /metadata/0/data/email: type",
		text(check.CheckResponse("metadata.list", reply(200), []byte(`{"metadata":[`+entry+`],`+meta+`}`))))
	event := `{"id":"1","type":"order.placed","created_at":"2026-03-02T09:00:00Z","clinic_id":"1","data":{"order":{}}}`
	assert.Contains(t, text(check.CheckResponse("events.get", reply(200), []byte(`{"event":`+event+`}`))),
		"events.get: response body /event/data/order/order_number: required")
}

func TestIdentify(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	for target, want := range map[string]string{
		"GET /api/events/patients":                            "events.list_patients",
		"GET /api/events/1":                                   "events.get",
		"GET /clinic":                                         "clinic.get",
		"POST /x/y/clinic/patients":                           "patients.create",
		"PATCH /api/clinic/treatment_plans/1/cancel":          "treatment_plans.cancel",
		"GET /api/clinic/dynamic_links/treatment_plans/a%2Fb": "dynamic_links.get",
		"PUT /api/clinic":                                     "",
		"GET /api/clinic/patients/":                           "",
	} {
		method, path, _ := strings.Cut(target, " ")
		name, known := check.Identify(message(method, path))
		assert.Equal(t, want, name, target)
		assert.Equal(t, want != "", known, target)
	}
}

func TestRecorderPassesFailuresOn(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = w.Write([]byte("{")) // and breaks off
	}))
	address := server.URL
	recorder := new(contract.Recorder)
	_, err := (&http.Client{Transport: recorder}).Get(address)
	require.Error(t, err)
	server.Close()
	_, err = (&http.Client{Transport: recorder}).Get(address)
	require.Error(t, err)
	assert.Empty(t, recorder.Exchanges())
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
