package events_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// marked is patient data in tests for leaks.
const marked = "Zaphod-Marked"

// The tests of package redact check all other ways of printing.
func TestEventPrintsTypeAndID(t *testing.T) {
	t.Parallel()
	e := events.Event{ID: "evt_1", Type: events.TypePatientUpdated}
	assert.Equal(t, `patient.updated "evt_1"`, e.String())
	assert.Equal(t, `events.Event(patient.updated "evt_1")`, fmt.Sprintf("%#v", e))
	assert.Equal(t, `[patient.updated "evt_1"]`, fmt.Sprintf("%d", []any{e}))
	assert.Equal(t, "[type=patient.updated id=evt_1]", e.LogValue().String())
}

func TestEventReadsFromLists(t *testing.T) {
	t.Parallel()
	var page struct{ Events []events.Event }
	body := []byte(`{"events":[` + bareEvent + `,{"id":7,"type":[],"created_at":"soon","extra":1},null]}`)
	require.NoError(t, json.Unmarshal(body, &page))
	clear(body)
	require.Len(t, page.Events, 3)
	assert.Equal(t, "evt_1", page.Events[0].ID)
	assert.JSONEq(t, `{"order":{"id":"or_1"}}`, string(page.Events[0].Data), "data must be a copy")
	assert.EqualExportedValues(t, events.Event{ID: "7"}, page.Events[1])
	assert.Equal(t, events.Event{}, page.Events[2])

	var e events.Event
	require.ErrorIs(t, json.Unmarshal([]byte(`"x"`), &e), events.ErrNoEvent)
	require.ErrorIs(t, e.UnmarshalJSON([]byte(`{"id":}`)), events.ErrMalformed)
}

func TestEventSurvivesEncoding(t *testing.T) {
	t.Parallel()
	e, err := events.Parse([]byte(bareEvent))
	require.NoError(t, err)
	body, err := json.Marshal(e)
	require.NoError(t, err)
	again, err := events.Parse(body)
	require.NoError(t, err)
	assert.EqualExportedValues(t, e, again)

	body, err = json.Marshal(events.Event{ID: "e", Type: "t"})
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"e","type":"t","created_at":null}`, string(body))
}

func event(t events.Type, data string) events.Event {
	return events.Event{ID: "evt_1", Type: t, Data: json.RawMessage(data)}
}

// bothWays decodes data bare and wrapped. It requires the same object from both, and the raw
// data unchanged.
func bothWays[T events.Payload](t *testing.T, kind events.Type, wrapper, data string) T {
	t.Helper()
	bare, err := events.As[T](event(kind, data))
	require.NoError(t, err)
	assert.JSONEq(t, data, string(bare.Data))
	wrapped, err := events.As[T](event(kind, `{"`+wrapper+`":`+data+`,"new":{}}`))
	require.NoError(t, err)
	assert.EqualExportedValues(t, bare.Object, wrapped.Object)
	assert.Equal(t, "evt_1", wrapped.ID)
	return wrapped.Object
}

func TestAsDecodesEveryObject(t *testing.T) {
	t.Parallel()
	for _, kind := range []events.Type{events.TypePatientCreated, events.TypePatientUpdated} {
		patient := bothWays[clinic.Patient](t, kind, "patient", `{"id":"pa_1","first_name":"Ada","date_of_birth":null}`)
		assert.Equal(t, "Ada", patient.FirstName)
	}
	order := bothWays[clinic.Order](t, events.TypeOrderPlaced, "order", `{"id":"or_1","order_number":"R100","line_items":[{"variant_id":"va_1","quantity":2}]}`)
	assert.Equal(t, "R100", order.OrderNumber)
	for _, kind := range []events.Type{events.TypeProductCreated, events.TypeProductUpdated, events.TypeProductDescriptionUpdated} {
		product := bothWays[catalog.Product](t, kind, "product", `{"id":"pr_1","name":"Zinc","active":"true","variants":[]}`)
		assert.Equal(t, "Zinc", product.Name)
	}
	for _, kind := range []events.Type{events.TypeTreatmentPlanCreated, events.TypeTreatmentPlanUpdated, events.TypeTreatmentPlanRecommendationUpdated} {
		plan := bothWays[treatmentplans.Plan](t, kind, "treatment_plan", `{"id":"tp_1","state":"active","patient":{"id":"pa_1"},"recommendations":[
			{"variant_id":"va_1","dosage":{"amount":"1-2","frequency":"once per day","duration":null}},
			{"variant_id":"va_2","dosage":{"recommended_amount":"1-2","recommended_frequency":"once per day","recommended_duration":null}}]}`)
		assert.Equal(t, treatmentplans.StateActive, plan.State)
		require.Len(t, plan.Recommendations, 2)
		assert.Equal(t, plan.Recommendations[0].Dosage, plan.Recommendations[1].Dosage, "both spellings must decode alike")
		assert.EqualValues(t, "1-2", plan.Recommendations[0].Dosage.Amount)
	}
	key := bothWays[events.ClinicKey](t, events.TypeClinicKeyActivated, "clinic_key", `{"id":"ck_1"}`)
	assert.Equal(t, events.ClinicKey{ID: "ck_1"}, key)
}

func TestAsDecodesUnknownTypeByObject(t *testing.T) {
	t.Parallel()
	order, err := events.As[clinic.Order](event("order.refunded", `{"id":"or_1"}`))
	require.NoError(t, err)
	assert.Equal(t, "or_1", order.Object.ID)
}

func TestAsAcceptsUndocumentedData(t *testing.T) {
	t.Parallel()
	for _, kind := range []events.Type{events.TypeProductCreated, events.TypeProductUpdated, events.TypeProductDescriptionUpdated} {
		product, err := events.As[catalog.Product](event(kind, `{"product":{"description_html":"<p>"}}`))
		require.NoError(t, err, kind)
		assert.Equal(t, catalog.Product{DescriptionHTML: "<p>"}, product.Object)
		assert.Equal(t, []string{"id"}, product.InvalidFields)
	}
	for _, data := range []string{`{"purchase":{"id":"or_1"}}`, `{"order":[{"id":"or_1"}]}`, `{"id":[]}`} {
		order, err := events.As[clinic.Order](event(events.TypeOrderPlaced, data))
		require.NoError(t, err, data)
		assert.Equal(t, []string{"id"}, order.InvalidFields)
	}
	for _, kind := range []events.Type{events.TypeTreatmentPlanUpdated, events.TypeTreatmentPlanRecommendationUpdated} {
		plan, err := events.As[treatmentplans.Plan](event(kind, `{}`))
		require.NoError(t, err, kind)
		assert.Equal(t, []string{"id"}, plan.InvalidFields)
	}
	patient, err := events.As[clinic.Patient](event(events.TypePatientCreated, `{}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"id"}, patient.InvalidFields)
}

func TestAsReportsInvalidFields(t *testing.T) {
	t.Parallel()
	order, err := events.As[clinic.Order](event(events.TypeOrderPlaced,
		`{"order":{"id":17,"completed_at":"`+marked+`","msrp_total":"10.00","line_items":[{"variant_id":"va_1","quantity":"`+marked+`"},"`+marked+`"]}}`))
	require.NoError(t, err)
	assert.Equal(t, "17", order.Object.ID)
	assert.Zero(t, order.Object.CompletedAt)
	assert.Equal(t, []clinic.LineItem{{VariantID: "va_1"}}, order.Object.LineItems)
	assert.Equal(t, []string{"completed_at", "line_items[0].quantity", "line_items[1]"}, order.InvalidFields)
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v", order, order, order), marked)
}

func TestAsReadsClinicKeyFields(t *testing.T) {
	t.Parallel()
	e := event(events.TypeClinicKeyRevoked, `{"clinic_key":{"integration_id":"in_2","clinic_id":4}}`)
	e.IntegrationID = "in_1"
	key, err := events.As[events.ClinicKey](e)
	require.NoError(t, err)
	assert.Equal(t, events.ClinicKey{IntegrationID: "in_2", ClinicID: "4"}, key.Object)
	assert.Empty(t, key.InvalidFields)
	assert.Equal(t, "in_1", key.IntegrationID)
}

func TestAsAcceptsBareRecommendation(t *testing.T) {
	t.Parallel()
	plan, err := events.As[treatmentplans.Plan](event(events.TypeTreatmentPlanRecommendationUpdated, `{"recommendation":{"variant_id":"va_1"}}`))
	require.NoError(t, err)
	assert.Empty(t, plan.Object.ID)
	assert.JSONEq(t, `{"recommendation":{"variant_id":"va_1"}}`, string(plan.Data))
}

func TestAsAcceptsAnyClinicKeyData(t *testing.T) {
	t.Parallel()
	for _, data := range []string{``, `null`, `{}`, `"key"`, `{"clinic_key":null}`, `{"clinic_key":"key"}`, `[1]`, `{"id":[]}`} {
		key, err := events.As[events.ClinicKey](event(events.TypeClinicKeyRevoked, data))
		require.NoError(t, err, data)
		assert.Equal(t, events.ClinicKey{}, key.Object)
	}
}

func TestAsReportsDataError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event  events.Event
		reason error
		text   string
	}{
		"no data":        {event(events.TypeOrderPlaced, ``), events.ErrNoData, `events: event has no data: order.placed "evt_1"`},
		"null":           {event(events.TypeOrderPlaced, `null`), events.ErrNoData, `events: event has no data: order.placed "evt_1"`},
		"wrapped null":   {event(events.TypeOrderPlaced, `{"order":null}`), events.ErrNoData, `events: event has no data: order.placed "evt_1"`},
		"another object": {event(events.TypePatientCreated, `{"id":"x"}`), events.ErrOtherObject, `events: event is about another kind of object: patient.created "evt_1"`},
		"no object":      {event("", `{"id":"x"}`), events.ErrOtherObject, `events: event is about another kind of object:  "evt_1"`},
		"no JSON":        {event(events.TypeOrderPlaced, marked), events.ErrBadData, `events: data cannot be decoded: order.placed "evt_1"`},
		"a string":       {event(events.TypeOrderPlaced, `"`+marked+`"`), events.ErrBadData, `events: data cannot be decoded: order.placed "evt_1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := events.As[clinic.Order](c.event)
			require.ErrorIs(t, err, c.reason)
			var data *events.DataError
			require.ErrorAs(t, err, &data)
			assert.Equal(t, c.event.Type, data.Type)
			assert.Equal(t, "evt_1", data.ID)
			assert.NotContains(t, fmt.Sprintf("%v %+v %#v", err, err, err), marked)
			if c.text != "" {
				assert.EqualError(t, err, c.text)
			}
		})
	}
}

func TestTypedSurvivesEncoding(t *testing.T) {
	t.Parallel()
	order, err := events.As[clinic.Order](event(events.TypeOrderPlaced, `{"order":{"id":"or_1","order_number":"R100"}}`))
	require.NoError(t, err)
	body, err := json.Marshal(order)
	require.NoError(t, err)
	var again events.Typed[clinic.Order]
	require.NoError(t, json.Unmarshal(body, &again))
	assert.EqualExportedValues(t, order.Object, again.Object)
	assert.Equal(t, order.ID, again.ID)

	_, err = events.As[clinic.Patient](event(events.TypePatientUpdated, `{"patient":{"first_name":"`+marked+`"}}`))
	require.ErrorIs(t, err, events.ErrBadData)
	require.EqualError(t, err, `events: data cannot be decoded: patient.updated "evt_1", field id`)
	_, err = events.As[treatmentplans.Plan](event(events.TypeTreatmentPlanCreated, `{"treatment_plan":{}}`))
	require.ErrorIs(t, err, events.ErrBadData)

	require.ErrorIs(t, json.Unmarshal([]byte(`{"type":"order.placed"}`), &again), events.ErrNoData)
	require.ErrorIs(t, json.Unmarshal([]byte(`[]`), &again), events.ErrNoEvent)
}

// bench is a fake platform with a frozen clock, and its events for the first practitioner.
type bench struct {
	platform *dispensarytest.Server
	events.Service
	clock *dispensarytest.Clock
}

// begins is a time of day several hours before midnight.
var begins = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func start(t *testing.T) *bench {
	t.Helper()
	clock := dispensarytest.FrozenClock(begins)
	platform := dispensarytest.New(t, dispensarytest.WithClock(clock))
	return &bench{platform: platform, Service: platform.Client(model.User{}).Events, clock: clock}
}

// happen performs actions that create events of every group, and returns the events.
func (b *bench) happen(t *testing.T) []model.Event {
	t.Helper()
	p := b.platform
	patient, created, err := p.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	_, updated, err := p.Patients.Update(patient.ID, model.PatientUpdate{FirstName: new("Changed")})
	require.NoError(t, err)
	plan, planned, err := p.Plans.Create(patient.ID, model.PlanCreate{})
	require.NoError(t, err)
	_, ordered, err := p.Orders.Place(patient.ID, model.OrderCreate{PlanIDs: []string{plan.ID}})
	require.NoError(t, err)
	_, canceled, err := p.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	_, product, err := p.Products.Create(model.ProductCreate{})
	require.NoError(t, err)
	revoked, err := p.Clinics.RevokeKey(b.platform.ClinicKey())
	require.NoError(t, err)
	activated, err := p.Clinics.ActivateKey(b.platform.ClinicKey())
	require.NoError(t, err)
	return []model.Event{created, updated, planned, ordered, canceled, product, revoked, activated}
}

// The data of every event type decodes to the platform's record.
func TestGetReturnsDecodableData(t *testing.T) {
	t.Parallel()
	b := start(t)
	p := b.platform
	made := b.happen(t)
	get := func(i int) events.Event {
		e, err := b.Get(t.Context(), made[i].ID)
		require.NoError(t, err)
		return *e
	}
	patient, err := events.As[clinic.Patient](get(1))
	require.NoError(t, err)
	held, known := p.Patients.Get(patient.Object.ID)
	require.True(t, known)
	assert.Equal(t, held.FirstName, patient.Object.FirstName)
	assert.Equal(t, held.Email, patient.Object.Email)

	plan, err := events.As[treatmentplans.Plan](get(2))
	require.NoError(t, err)
	assert.Equal(t, treatmentplans.StateActive, plan.Object.State, "the plan at the time of the event")
	assert.Equal(t, held.ID, plan.Object.Patient.ID)

	order, err := events.As[clinic.Order](get(3))
	require.NoError(t, err)
	heldOrder, known := p.Orders.Get(order.Object.ID)
	require.True(t, known)
	assert.Equal(t, heldOrder.Number, order.Object.OrderNumber)
	assert.Len(t, order.Object.LineItems, len(heldOrder.Lines))

	product, err := events.As[catalog.Product](get(5))
	require.NoError(t, err)
	_, known = p.Products.Get(product.Object.ID)
	assert.True(t, known)
	_, err = events.As[events.ClinicKey](get(7))
	require.NoError(t, err)
}

// activate activates the integration, so that the platform sends events.
func (b *bench) activate(t *testing.T) {
	t.Helper()
	_, err := b.platform.Clinics.ActivateKey(b.platform.ClinicKey())
	require.NoError(t, err)
}

// deliver registers a webhook endpoint that fails the given number of requests, places an
// order and runs the due deliveries.
func (b *bench) deliver(t *testing.T, failures int32) model.Event {
	t.Helper()
	var requests atomic.Int32
	require.NoError(t, b.platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) <= failures {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"challenge":%q}`, b.platform.Application().ChallengeToken)
	})))
	_, event, err := b.platform.Orders.Place(b.platform.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(t, err)
	b.clock.Advance(0)
	return event
}

func TestDeliveriesListAttempts(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.activate(t)
	event := b.deliver(t, 1)
	page, err := b.Deliveries.List(events.DeliveryListOptions{}).Page(t.Context())
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	failed := page.Items[0]
	held := b.platform.Webhooks.Deliveries()[0]
	assert.Equal(t, held.ID, failed.ID)
	assert.EqualValues(t, 1, failed.AttemptNumber)
	assert.True(t, failed.AttemptedAt.Equal(begins))
	assert.True(t, failed.PreviousAttemptAt.IsZero())
	assert.True(t, failed.NextAttemptAt.Equal(begins.Add(time.Minute)))
	assert.False(t, failed.SuccessfullyDelivered)
	assert.EqualValues(t, http.StatusServiceUnavailable, failed.ResponseStatus)
	assert.Equal(t, "not now\n", failed.ResponseBody)
	assert.Contains(t, failed.ResponseHeader, "Content-Type: text/plain")
	assert.NotEmpty(t, failed.ResponseIPAddress)
	assert.Equal(t, held.Attempts[0].Err, failed.ResponseErrors)

	sent, err := failed.Event()
	require.NoError(t, err)
	assert.Equal(t, event.ID, sent.ID)
	assert.Equal(t, events.TypeOrderPlaced, sent.Type)
	assert.Equal(t, held.IntegrationID, sent.IntegrationID)
	assert.JSONEq(t, string(event.Data), string(sent.Data))

	b.clock.Advance(time.Minute)
	page, err = b.Deliveries.List(events.DeliveryListOptions{}).Page(t.Context())
	require.NoError(t, err)
	delivered := page.Items[0]
	assert.True(t, delivered.SuccessfullyDelivered)
	assert.EqualValues(t, 2, delivered.AttemptNumber)
	assert.True(t, delivered.PreviousAttemptAt.Equal(begins))
	assert.True(t, delivered.NextAttemptAt.IsZero())
	assert.Empty(t, delivered.ResponseErrors)
	assert.Equal(t, page.Items, resourcetest.Collect(t, b.Deliveries.List(events.DeliveryListOptions{}).All(t.Context())))
	b.platform.Journal.CheckNoUnexpected(t)
}

// A delivery without a valid event returns an error without its data.
func TestDeliveryWithoutEventFails(t *testing.T) {
	t.Parallel()
	_, err := events.Delivery{}.Event()
	require.ErrorIs(t, err, events.ErrMalformed)
	_, err = events.Delivery{EventPayload: []byte(`{"event":{"data":"` + marked + `"}}`)}.Event()
	require.ErrorIs(t, err, events.ErrNoEvent)
	assert.NotContains(t, err.Error(), marked)
}
