package webhook_test

import (
	"encoding/json"
	"fmt"
	"html/template"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

func TestKeyRoundTripsText(t *testing.T) {
	t.Parallel()
	seen := map[string]webhook.Key{}
	for _, environment := range []api.Environment{api.USSandbox, api.USProduction, api.CanadaSandbox, api.CanadaProduction} {
		for _, event := range []string{"evt_1", "evt_1/in_1", "a b", "%2F", "%", "\x00", "é", "e\u0301", "\xff", ".", ".."} {
			for _, integration := range []string{"", "in_1", "/", "evt_1"} {
				key := webhook.Key{Environment: environment, EventID: event, IntegrationID: integration}
				text, err := key.MarshalText()
				require.NoError(t, err)
				assert.Equal(t, string(text), key.String())
				assert.NotContains(t, seen, string(text), "%q and %q have the same text", key, seen[string(text)])
				seen[string(text)] = key
				var again webhook.Key
				require.NoError(t, again.UnmarshalText(text))
				assert.Equal(t, key, again)
			}
		}
	}
	encoded, err := json.Marshal(orderKey)
	require.NoError(t, err)
	assert.Equal(t, `"us/sandbox/evt_1/in_1"`, string(encoded))
	var shown strings.Builder
	page := template.Must(template.New("").Parse("{{.Key}}"))
	odd := webhook.Key{Environment: sandbox, EventID: "a b/ü%"}
	require.NoError(t, page.Execute(&shown, engine.Event{Delivery: webhook.Delivery{Key: odd}}))
	assert.Equal(t, odd.String(), shown.String(), "a page must show the text of the key")
	assert.Equal(t, "order.placed us/sandbox/evt_1/in_1", fmt.Sprint(webhook.Delivery{Key: orderKey, Type: "order.placed"}))
}

func TestKeyRejectsOtherTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "us/sandbox", "us/sandbox/evt_1", "us/sandbox//in_1", "us/moon/evt_1/", "//evt_1/", "us/sandbox/evt_1/in_1/x", "us/sandbox/%zz/in_1"} {
		key := orderKey
		require.Error(t, key.UnmarshalText([]byte(text)), text)
		assert.Equal(t, orderKey, key, "a failed parse must not change the key")
	}
}

func FuzzKey(f *testing.F) {
	f.Add("us/sandbox/evt_1/in_1")
	f.Add("ca/production/a%2Fb/")
	f.Fuzz(func(t *testing.T, text string) {
		var key, again webhook.Key
		if key.UnmarshalText([]byte(text)) != nil {
			return
		}
		canonical, err := key.MarshalText()
		require.NoError(t, err)
		require.NoError(t, again.UnmarshalText(canonical))
		require.Equal(t, key, again)
	})
}

func TestOrderingKeysGroupEvents(t *testing.T) {
	t.Parallel()
	d := webhook.Delivery{Key: orderKey}
	of := func(kind, id string) webhook.OrderingKey { return webhook.NewOrderingKey(d, kind, id) }
	for name, c := range map[string]struct {
		kind                    events.Type
		data                    string
		object, patient, clinic webhook.OrderingKey
	}{
		"wrapped patient": {events.TypePatientUpdated, `{"patient":{"id":"pa_1"}}`, of("patient", "pa_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"bare patient":    {events.TypePatientCreated, `{"id":"pa_1"}`, of("patient", "pa_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"wrapped plan":    {events.TypeTreatmentPlanUpdated, `{"treatment_plan":{"id":"tp_1","patient":{"id":"pa_1"}}}`, of("treatment_plan", "tp_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"bare plan":       {events.TypeTreatmentPlanCreated, `{"id":"tp_1","patient":{"id":"pa_1"}}`, of("treatment_plan", "tp_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"recommendation":  {events.TypeTreatmentPlanRecommendationUpdated, `{"treatment_plan":{"id":"tp_1"}}`, of("treatment_plan", "tp_1"), of("treatment_plan", "tp_1"), of("clinic", "cl_1")},
		"bare order":      {events.TypeOrderPlaced, `{"id":"or_1","patient_id":"pa_1"}`, of("order", "or_1"), of("patient", "pa_1"), of("clinic", "cl_1")},
		"odd patient":     {events.TypeOrderPlaced, `{"id":"or_1","patient":"pa_1"}`, of("order", "or_1"), of("order", "or_1"), of("clinic", "cl_1")},
		"number":          {events.TypeOrderPlaced, `{"order":{"id":17,"patient_id":18}}`, of("order", "17"), of("patient", "18"), of("clinic", "cl_1")},
		"clinic key":      {events.TypeClinicKeyRevoked, `{"id":"ck_1"}`, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
		"no id":           {events.TypeOrderPlaced, `{"order":{}}`, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
		"unknown type":    {"robot.built", `{"robot":{"id":"ro_1"}}`, of("robot", "ro_1"), of("robot", "ro_1"), of("clinic", "cl_1")},
		"no data":         {events.TypeOrderPlaced, ``, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
		"no object":       {events.TypeOrderPlaced, `[1]`, of("clinic", "cl_1"), of("clinic", "cl_1"), of("clinic", "cl_1")},
	} {
		e := events.Event{ID: "evt_1", Type: c.kind, ClinicID: "cl_1", Data: json.RawMessage(c.data)}
		assert.Equal(t, c.object, webhook.ByObject(d, e), name)
		assert.Equal(t, c.patient, webhook.ByPatient(d, e), name)
		assert.Equal(t, c.clinic, webhook.ByClinic(d, e), name)
	}
	product := events.Event{Type: events.TypeProductCreated, Data: json.RawMessage(`{"id":"pr_1"}`)}
	assert.Equal(t, of("product", "pr_1"), webhook.ByClinic(d, product), "products belong to no clinic")
	assert.Empty(t, webhook.ByObject(d, events.Event{Type: events.TypeProductCreated}))
}

func TestOrderingKeysHideObjects(t *testing.T) {
	t.Parallel()
	d := webhook.Delivery{Key: orderKey}
	abroad, other := d, d
	abroad.Key.Environment = api.CanadaSandbox
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
		"stored keys must stay valid")
}
