package receivercheck

import (
	"encoding/json"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func eventCases() []testCase {
	return []testCase{
		{
			name: "Events/EveryType", run: (*checker).everyType,
			consequence: "events of that type are sent six times and then lost.",
			fix:         "acknowledge every event that is signed, also of types that you have no use for, and decide afterwards what to do with it.",
		},
		{
			name: "Events/UnknownType", run: (*checker).unknownType,
			consequence: "the day the platform adds a type, events fail, and if nothing else is sent for 24 hours the address is switched off.",
			fix:         "store and acknowledge events whatever their type; skip the unknown ones when you handle them.",
		},
		{
			name: "Events/UnknownFields", run: (*checker).unknownFields,
			consequence: "new fields, which the API counts as compatible, make events fail.",
			fix:         "ignore fields that you do not know (in Go do not use DisallowUnknownFields).",
		},
		{
			name: "Events/MissingFields", run: (*checker).missingFields,
			consequence: "events without them fail, or break the process: clinic_id is not there on product events, integration_id only where relevant, and much of an object can be null.",
			fix:         "demand an id and a type to acknowledge an event, and nothing else; check the rest when you handle it.",
		},
		{
			name: "Events/OtherForms", run: (*checker).otherForms,
			consequence: "events fail whose booleans and numbers come as strings, or whose dosage is spelled as in answers; both are seen.",
			fix:         "do not decode an event's data before it is acknowledged, and be lenient when you do.",
		},
		{
			name: "Events/Wrapping", run: (*checker).wrapping,
			consequence: "orders, or new products, are lost: their data is seen directly in data as well as under order and product.",
			fix:         "look for the object under its name in data, and in data itself.",
		},
	}
}

func envelopeCases() []testCase {
	return []testCase{
		{
			name: "Events/Payload", needs: needsEnvelopes, run: (*checker).payload,
			consequence: `events in {"event_payload":{"event":{…}}} are lost; the delivery log has that form, and it is seen in webhooks, too.`,
			fix:         "look for event in event_payload if it is not on top.",
		},
		{
			name: "Events/Bare", needs: needsEnvelopes, run: (*checker).bare,
			consequence: "an event that comes without a wrapper is lost. This form is an assumption, for safety.",
			fix:         "take the body itself for the event if it has an id and a type.",
		},
	}
}

func (c *checker) everyType() {
	for _, kind := range model.EventTypes() {
		c.accepts(kind, c.deliver(c.newEventOf(kind).body()))
	}
}

func (c *checker) unknownType() {
	ev := c.newEventOf("treatment_plan.archived")
	ev.Data = json.RawMessage(`{"archive":{"id":"a-1"}}`)
	c.accepts("an event of the type treatment_plan.archived", c.deliver(ev.body()))
}

func (c *checker) unknownFields() {
	ev := c.newEvent()
	body := ev.edited(func(event map[string]any) {
		event["sequence"], event["origin"] = 7, map[string]any{"kind": "import", "tags": []string{"a"}}
		event["data"].(map[string]any)["loyalty_points"] = 12
	})
	body = append([]byte(`{"api_version":"2030-01-01",`), body[1:]...)
	c.takes("an event with unknown fields", ev, c.deliver(body))
}

func (c *checker) missingFields() {
	for _, field := range []string{"clinic_id", "integration_id", "created_at"} {
		c.accepts("an event without "+field, c.deliver(c.newEvent().edited(func(event map[string]any) { delete(event, field) })))
		c.accepts("an event whose "+field+" is null", c.deliver(c.newEvent().edited(func(event map[string]any) { event[field] = nil })))
	}
	for _, kind := range []string{model.OrderPlaced, model.PatientUpdated, model.ProductUpdated, model.TreatmentPlanUpdated} {
		c.accepts(kind+" whose data is null", c.deliver(c.newEventOf(kind).edited(func(event map[string]any) { event["data"] = nil })))
		c.accepts(kind+" whose object has only an id", c.deliver(c.newEventOf(kind).edited(func(event map[string]any) { strip(event["data"].(map[string]any)) })))
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

func (c *checker) otherForms() {
	ev := c.newEventOf(model.PatientUpdated)
	c.accepts("patient.updated with booleans and numbers in strings", c.deliver(ev.edited(func(event map[string]any) {
		patient := event["data"].(map[string]any)["patient"].(map[string]any)
		patient["active"], patient["text_message_notification"], patient["discount"] = "true", "true", "12.5"
	})))
	ev = c.newEventOf(model.TreatmentPlanUpdated)
	respelled := strings.NewReplacer("recommended_amount", "amount", "recommended_frequency", "frequency", "recommended_duration", "duration")
	c.accepts("treatment_plan.updated with the dosage as in answers", c.deliver([]byte(respelled.Replace(string(ev.body())))))
}

func (c *checker) wrapping() {
	for kind, name := range sortedByKey(map[string]string{model.OrderPlaced: "order", model.ProductCreated: "product"}) {
		ev := c.newEventOf(kind)
		if c.accepts(kind+" with its fields in data", c.deliver(ev.body())) && kind == c.Hooks.EventType {
			c.handled(ev, 1)
		}
		ev = c.newEventOf(kind)
		ev.Data = encode(map[string]any{name: ev.Data})
		if c.accepts(kind+" with its fields in data."+name, c.deliver(ev.body())) && kind == c.Hooks.EventType {
			c.handled(ev, 1)
		}
	}
}

func (c *checker) payload() {
	ev := c.newEvent()
	c.takes("an event in event_payload", ev, c.deliver(encode(map[string]any{"event_payload": map[string]event{"event": ev}})))
}

func (c *checker) bare() {
	ev := c.newEvent()
	c.takes("an event without a wrapper", ev, c.deliver(encode(ev)))
}
