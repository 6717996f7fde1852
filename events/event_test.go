package events_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/events"
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
