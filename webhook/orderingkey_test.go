package webhook_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

func TestSubjects(t *testing.T) {
	t.Parallel()
	d := webhook.Delivery{Key: orderKey}
	of := func(kind, id string) webhook.OrderingKey { return webhook.NewOrderingKey(d, kind, id) }
	for name, c := range map[string]struct {
		kind                    events.Type
		data                    string
		object, patient, clinic webhook.OrderingKey
	}{
		"wrapped patient": {events.PatientUpdated, `{"patient":{"id":"pa_1"}}`, of("patient", "pa_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"bare patient":    {events.PatientCreated, `{"id":"pa_1"}`, of("patient", "pa_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"wrapped plan":    {events.TreatmentPlanUpdated, `{"treatment_plan":{"id":"tp_1","patient":{"id":"pa_1"}}}`, of("treatment_plan", "tp_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"bare plan":       {events.TreatmentPlanCreated, `{"id":"tp_1","patient":{"id":"pa_1"}}`, of("treatment_plan", "tp_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"recommendation":  {events.TreatmentPlanRecommendationUpdated, `{"treatment_plan":{"id":"tp_1"}}`, of("treatment_plan", "tp_1"), of("treatment_plan", "tp_1"), of("clinic", "cl_1")},
		"bare order":      {events.OrderPlaced, `{"id":"or_1","patient_id":"pa_1"}`, of("order", "or_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"odd patient":     {events.OrderPlaced, `{"id":"or_1","patient":"pa_1"}`, of("order", "or_1"), of("order", "or_1"), of("clinic", "cl_1")},
		"number":          {events.OrderPlaced, `{"order":{"id":17,"patient_id":18}}`, of("order", "17"), of("patient", "18"), of("clinic", "cl_1")},
		"clinic key":      {events.ClinicKeyRevoked, `{"id":"ck_1"}`, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
		"no id":           {events.OrderPlaced, `{"order":{}}`, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
		"unknown type":    {"robot.built", `{"robot":{"id":"ro_1"}}`, of("robot", "ro_1"), of("robot", "ro_1"), of("clinic", "cl_1")},
		"no data":         {events.OrderPlaced, ``, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
		"no object":       {events.OrderPlaced, `[1]`, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
	} {
		e := events.Event{ID: "evt_1", Type: c.kind, ClinicID: "cl_1", Data: json.RawMessage(c.data)}
		assert.Equal(t, c.object, webhook.ByObject(d, e), name)
		assert.Equal(t, c.patient, webhook.ByPatient(d, e), name)
		assert.Equal(t, c.clinic, webhook.ByClinic(d, e), name)
	}
	product := events.Event{Type: events.ProductCreated, Data: json.RawMessage(`{"id":"pr_1"}`)}
	assert.Equal(t, of("product", "pr_1"), webhook.ByClinic(d, product), "products belong to no clinic")
	assert.Empty(t, webhook.ByObject(d, events.Event{Type: events.ProductCreated}))
}

func TestOrderingKeysDifferAndHideTheirObjects(t *testing.T) {
	t.Parallel()
	d := webhook.Delivery{Key: orderKey}
	abroad, other := d, d
	abroad.Key.Environment.Region = api.Canada
	other.Key.IntegrationID = "in_2"
	known := map[webhook.OrderingKey]bool{}
	for _, s := range []webhook.OrderingKey{
		webhook.NewOrderingKey(d, "patient", "pa_1"), webhook.NewOrderingKey(abroad, "patient", "pa_1"),
		webhook.NewOrderingKey(other, "patient", "pa_1"), webhook.NewOrderingKey(d, "order", "pa_1"),
		webhook.NewOrderingKey(d, "patient", "pa_2"), webhook.NewOrderingKey(d, "patientp", "a_1"),
	} {
		assert.False(t, known[s])
		known[s] = true
		assert.Regexp(t, `^[a-z]+-[0-9a-f]{32}$`, string(s))
	}
	assert.Equal(t, webhook.OrderingKey("patient-8c024728fb14d22b6d3ca271e91c7b45"), webhook.NewOrderingKey(d, "patient", "pa_1"),
		"engines have stored it: it must not change")
}
