package contract_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// delivery is a webhook request to the endpoint.
type delivery struct {
	request *http.Request
	body    []byte
}

// endpoint is a webhook endpoint that acknowledges and stores every request.
type endpoint struct {
	*httptest.Server
	mu        sync.Mutex
	challenge string
	got       []delivery
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // a truncated body is reported as malformed
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, delivery{r, body})
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, e.acknowledgement())
}

func (e *endpoint) acknowledgement() string {
	return `{"challenge":` + strconv.Quote(e.challenge) + `}`
}

// last returns the latest delivery.
func (e *endpoint) last() delivery {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.got[len(e.got)-1]
}

// listen registers an endpoint.
func (s *fixture) listen() *endpoint {
	s.t.Helper()
	e := &endpoint{challenge: s.Platform.Application().ChallengeToken}
	e.Server = httptest.NewServer(e)
	s.t.Cleanup(e.Close)
	require.NoError(s.t, s.Platform.Webhooks.Register(e.URL))
	return e
}

// deliver waits until an event has arrived.
func (s *fixture) deliver(eventID string) {
	s.t.Helper()
	require.NoError(s.t, s.Platform.Webhooks.WaitDelivered(s.t.Context(), eventID))
}

// happening creates an event of one type.
type happening func(s *fixture, p *dispensarytest.Server) (model.Event, error)

// happenings contains all ways to create an event, by event type.
var happenings = map[string][]happening{
	model.EventClinicKeyActivated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		if _, err := p.Clinics.RevokeKey(s.Platform.ClinicKey()); err != nil {
			return model.Event{}, err
		}
		return p.Clinics.ActivateKey(s.Platform.ClinicKey())
	}},
	model.EventClinicKeyRevoked: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		return p.Clinics.RevokeKey(s.Platform.ClinicKey())
	}},
	model.EventOrderPlaced: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Orders.Place(s.Patient, model.OrderCreate{PlanIDs: []string{s.Plan}})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Orders.Place(s.Patient, model.OrderCreate{})
		return event, err
	}},
	model.EventPatientCreated: {func(_ *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Patients.Create(model.PatientCreate{})
		return event, err
	}},
	model.EventPatientUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Patients.Update(s.Patient, model.PatientUpdate{MobileNumber: new(""), TextNotification: new(true)})
		return event, err
	}},
	model.EventProductCreated: {func(_ *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.Create(model.ProductCreate{})
		return event, err
	}},
	model.EventProductDescriptionUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.Describe(s.Product, "<p>Better than ever.</p>")
		return event, err
	}},
	model.EventProductUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.Update(s.Product, model.ProductUpdate{Name: new("Renamed")})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Products.UpdateVariant(s.Variant, model.VariantUpdate{Status: new("vendor backorder")})
		return event, err
	}},
	model.EventTreatmentPlanCreated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Create(s.Patient, model.PlanCreate{PersonalMessage: "Rest."})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Activate(s.Draft)
		return event, err
	}},
	model.EventTreatmentPlanRecommendationUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.UpdateRecommendation(s.Draft, model.Recommendation{
			VariantID: s.Variant, UnitsToPurchase: 3, Dosage: &model.Dosage{Amount: "1/2", Format: "tablet"},
		})
		return event, err
	}},
	model.EventTreatmentPlanUpdated: {func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Update(s.Plan, model.PlanUpdate{PersonalMessage: new("")})
		return event, err
	}, func(s *fixture, p *dispensarytest.Server) (model.Event, error) {
		_, event, err := p.Plans.Cancel(s.Plan)
		return event, err
	}},
}

// The webhook, the single event and the delivery of each event type follow the contract.
func TestEventTypesFollowContract(t *testing.T) {
	t.Parallel()
	for _, eventType := range model.EventTypes() {
		for i, happens := range happenings[eventType] {
			t.Run(eventType+" "+strconv.Itoa(i+1), func(t *testing.T) {
				t.Parallel()
				s := start(t)
				receiver := s.listen()
				event, err := happens(s, s.Platform)
				require.NoError(t, err)
				require.Equal(t, eventType, event.Type)
				s.deliver(event.ID)
				s.checkDelivery(eventType, receiver)
				s.accepted("events.get", s.send("events.get", request{path: []string{event.ID}, token: s.token}))
				s.accepted("webhook_deliveries.list", s.send("webhook_deliveries.list", request{query: query("event_id", event.ID), token: s.token}))
			})
		}
	}
}

func (s *fixture) checkDelivery(eventType string, receiver *endpoint) {
	s.t.Helper()
	got := receiver.last()
	assert.NotEmpty(s.t, got.body)
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	assert.Empty(s.t, s.check.CheckWebhook(eventType, got.request, got.body, response, []byte(receiver.acknowledgement())))
}

func TestWebhooksCoverEventTypes(t *testing.T) {
	t.Parallel()
	s := start(t)
	assert.Equal(t, model.EventTypes(), s.check.Webhooks())
	assert.Len(t, s.check.Webhooks(), 11)
	for _, eventType := range s.check.Webhooks() {
		assert.NotEmpty(t, happenings[eventType], "no test creates %s", eventType)
	}
}

// The list of deliveries contains failed deliveries with and without a response.
func TestFailedDeliveriesFollowContract(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]http.HandlerFunc{
		"rejected": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not now", http.StatusServiceUnavailable) },
		"dropped":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := dispensarytest.FrozenClock(time.Now())
			s := start(t, dispensarytest.WithClock(clock))
			server := httptest.NewServer(response)
			t.Cleanup(server.Close)
			require.NoError(t, s.Platform.Webhooks.Register(server.URL))
			id := patientEvent(s)
			clock.Advance(0)
			s.accepted("webhook_deliveries.list", s.send("webhook_deliveries.list", request{
				query: query("event_id", id, "successfully_delivered", "false"), token: s.token,
			}))
		})
	}
}

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
