package dispensarytest

import (
	"encoding/json"
	"strings"
)

func eventCases() []receiverCase {
	return []receiverCase{
		{
			name: "EveryType", run: (*examination).everyType,
			consequence: "events of that type are sent six times and then lost.",
			fix:         "acknowledge every event that is signed, also of types that you have no use for, and decide afterwards what to do with it.",
		},
		{
			name: "UnknownType", run: (*examination).unknownType,
			consequence: "the day the platform adds a type, events fail, and if nothing else is sent for 24 hours the address is switched off.",
			fix:         "store and acknowledge events whatever their type; skip the unknown ones when you handle them.",
		},
		{
			name: "UnknownFields", run: (*examination).unknownFields,
			consequence: "new fields, which the API counts as compatible, make events fail.",
			fix:         "ignore fields that you do not know (in Go do not use DisallowUnknownFields).",
		},
		{
			name: "MissingFields", run: (*examination).missingFields,
			consequence: "events without them fail, or break the process: clinic_id is not there on product events, integration_id only where relevant, and much of an object can be null.",
			fix:         "demand an id and a type to acknowledge an event, and nothing else; check the rest when you handle it.",
		},
		{
			name: "OtherForms", run: (*examination).otherForms,
			consequence: "events fail whose booleans and numbers come as strings, or whose dosage is spelled as in answers; both are seen.",
			fix:         "do not decode an event's data before it is acknowledged, and be lenient when you do.",
		},
		{
			name: "Wrapping", run: (*examination).wrapping,
			consequence: "orders, or new products, are lost: their data is seen directly in data as well as under order and product.",
			fix:         "look for the object under its name in data, and in data itself.",
		},
		{
			name: "Payload", needs: hookEnvelopes, run: (*examination).payload,
			consequence: `events in {"event_payload":{"event":{…}}} are lost; the delivery log has that form, and it is seen in webhooks, too.`,
			fix:         "look for event in event_payload if it is not on top.",
		},
		{
			name: "Bare", needs: hookEnvelopes, run: (*examination).bare,
			consequence: "an event that comes without a wrapper is lost. This form is an assumption, for safety.",
			fix:         "take the body itself for the event if it has an id and a type.",
		},
	}
}

func (x *examination) everyType() {
	for _, kind := range EventTypes() {
		x.accepts(kind, x.deliver(x.notice(kind).body()))
	}
}

func (x *examination) unknownType() {
	n := x.notice("treatment_plan.archived")
	n.Data = json.RawMessage(`{"archive":{"id":"a-1"}}`)
	x.accepts("an event of the type treatment_plan.archived", x.deliver(n.body()))
}

func (x *examination) unknownFields() {
	n := x.notice(x.EventType)
	body := n.edited(func(event map[string]any) {
		event["sequence"], event["origin"] = 7, map[string]any{"kind": "import", "tags": []string{"a"}}
		event["data"].(map[string]any)["loyalty_points"] = 12
	})
	body = append([]byte(`{"api_version":"2030-01-01",`), body[1:]...)
	if x.accepts("an event with unknown fields", x.deliver(body)) {
		x.handled(n, 1)
	}
}

func (x *examination) missingFields() {
	for _, field := range []string{"clinic_id", "integration_id", "created_at"} {
		x.accepts("an event without "+field, x.deliver(x.notice(x.EventType).edited(func(event map[string]any) { delete(event, field) })))
		x.accepts("an event whose "+field+" is null", x.deliver(x.notice(x.EventType).edited(func(event map[string]any) { event[field] = nil })))
	}
	for _, kind := range []string{OrderPlaced, PatientUpdated, ProductUpdated, TreatmentPlanUpdated} {
		x.accepts(kind+" whose data is null", x.deliver(x.notice(kind).edited(func(event map[string]any) { event["data"] = nil })))
		x.accepts(kind+" whose object has only an id", x.deliver(x.notice(kind).edited(func(event map[string]any) { strip(event["data"].(map[string]any)) })))
	}
}

// strip leaves of an object, or of the objects in it, nothing but the id.
func strip(object map[string]any) {
	_, identified := object["id"]
	for name, value := range object {
		inner, nested := value.(map[string]any)
		switch {
		case identified && name != "id":
			delete(object, name)
		case !identified && nested:
			strip(inner)
		}
	}
}

func (x *examination) otherForms() {
	n := x.notice(PatientUpdated)
	x.accepts("patient.updated with booleans and numbers in strings", x.deliver(n.edited(func(event map[string]any) {
		patient := event["data"].(map[string]any)["patient"].(map[string]any)
		patient["active"], patient["text_message_notification"], patient["discount"] = "true", "true", "12.5"
	})))
	n = x.notice(TreatmentPlanUpdated)
	respelled := strings.NewReplacer("recommended_amount", "amount", "recommended_frequency", "frequency", "recommended_duration", "duration")
	x.accepts("treatment_plan.updated with the dosage as in answers", x.deliver([]byte(respelled.Replace(string(n.body())))))
}

func (x *examination) wrapping() {
	for kind, name := range sorted(map[string]string{OrderPlaced: "order", ProductCreated: "product"}) {
		n := x.notice(kind)
		if x.accepts(kind+" with its fields in data", x.deliver(n.body())) && kind == x.EventType {
			x.handled(n, 1)
		}
		n = x.notice(kind)
		n.Data = encodeOne(map[string]any{name: n.Data})
		if x.accepts(kind+" with its fields in data."+name, x.deliver(n.body())) && kind == x.EventType {
			x.handled(n, 1)
		}
	}
}

func (x *examination) payload() {
	n := x.notice(x.EventType)
	if x.accepts("an event in event_payload", x.deliver(encodeDelivery(&n.Event, n.integration, "event_payload"))) {
		x.handled(n, 1)
	}
}

func (x *examination) bare() {
	n := x.notice(x.EventType)
	view := viewEvent(&n.Event)
	view.IntegrationID = n.integration
	if x.accepts("an event without a wrapper", x.deliver(encodeOne(view))) {
		x.handled(n, 1)
	}
}
