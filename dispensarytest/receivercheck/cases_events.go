package receivercheck

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

var challengeCases = []testCase{
	{
		name: "Challenge/Answer",
		run: func(c *checker) {
			ev := c.newEvent()
			e := c.deliver(ev.body())
			c.acknowledges("an event", e)
			if e.accepted() {
				c.handled(ev, 1)
			}
		},
		consequence: "the platform counts the delivery as failed, sends the event five more times, and after 24 hours switches the address off.",
		fix:         `answer events with 200, Content-Type: application/json and the body {"challenge":"<the challenge token>"}, the token being that of the dashboard and not the secret.`,
	},
	{
		name:        "Challenge/Probe",
		run:         func(c *checker) { c.acknowledges("an empty body with a valid signature", c.deliver(nil)) },
		consequence: "an address that does not answer the empty test call cannot be registered, or gets no events where the call comes before each.",
		fix:         "answer an empty body with a valid signature like an event, and handle nothing.",
	},
	{
		name: "Challenge/UnsignedProbe",
		run: func(c *checker) {
			demand := (*checker).refuses
			if c.Features.UnsignedProbe {
				demand = (*checker).acknowledges
			}
			demand(c, "an empty body without a signature", c.post(request{genuine: c.Features.UnsignedProbe}))
		},
		consequence: "anyone who asks gets the challenge token, and can answer in your name; or, where you mean to answer unsigned probes, registration fails.",
		fix:         "answer an empty body without signature with 401, unless registration fails otherwise; set Target.Features.UnsignedProbe to what you mean.",
	},
	{
		name: "Challenge/OnlyPost",
		run: func(c *checker) {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				c.refusesEvent("a signed event sent by "+method, func(r *request) { r.method = method })
			}
		},
		consequence: "a link in an e-mail or a crawler sets events off, or gets the challenge token.",
		fix:         "answer every method but POST with 405.",
	},
}

var eventCases = []testCase{
	{
		name: "Events/EveryType",
		run: func(c *checker) {
			for _, kind := range model.EventTypes() {
				c.accepts(kind, c.deliver(c.newEventOf(kind).body()))
			}
		},
		consequence: "events of that type are sent six times and then lost.",
		fix:         "acknowledge every event that is signed, also of types that you have no use for, and decide afterwards what to do with it.",
	},
	{
		name: "Events/UnknownType",
		run: func(c *checker) {
			ev := c.newEventOf("treatment_plan.archived")
			ev.Data = json.RawMessage(`{"archive":{"id":"a-1"}}`)
			c.accepts("an event of the type treatment_plan.archived", c.deliver(ev.body()))
		},
		consequence: "the day the platform adds a type, events fail, and if nothing else is sent for 24 hours the address is switched off.",
		fix:         "store and acknowledge events whatever their type; skip the unknown ones when you handle them.",
	},
	{
		name: "Events/UnknownFields",
		run: func(c *checker) {
			ev := c.newEvent()
			body := ev.edited(func(event map[string]any) {
				event["sequence"], event["origin"] = 7, map[string]any{"kind": "import", "tags": []string{"a"}}
				event["data"].(map[string]any)["loyalty_points"] = 12
			})
			body = append([]byte(`{"api_version":"2030-01-01",`), body[1:]...)
			c.takes("an event with unknown fields", ev, c.deliver(body))
		},
		consequence: "new fields, which the API counts as compatible, make events fail.",
		fix:         "ignore fields that you do not know (in Go do not use DisallowUnknownFields).",
	},
	{
		name: "Events/MissingFields",
		run: func(c *checker) {
			for _, field := range []string{"clinic_id", "integration_id", "created_at"} {
				c.acceptsEdited("an event without "+field, c.Hooks.EventType, func(event map[string]any) { delete(event, field) })
				c.acceptsEdited("an event whose "+field+" is null", c.Hooks.EventType, func(event map[string]any) { event[field] = nil })
			}
			for _, kind := range []string{model.EventOrderPlaced, model.EventPatientUpdated, model.EventProductUpdated, model.EventTreatmentPlanUpdated} {
				c.acceptsEdited(kind+" whose data is null", kind, func(event map[string]any) { event["data"] = nil })
				c.acceptsEdited(kind+" whose object has only an id", kind, func(event map[string]any) { strip(event["data"].(map[string]any)) })
			}
		},
		consequence: "events without them fail, or break the process: clinic_id is not there on product events, integration_id only where relevant, and much of an object can be null.",
		fix:         "demand an id and a type to acknowledge an event, and nothing else; check the rest when you handle it.",
	},
	{
		name: "Events/OtherForms",
		run: func(c *checker) {
			c.acceptsEdited("patient.updated with booleans and numbers in strings", model.EventPatientUpdated, func(event map[string]any) {
				patient := event["data"].(map[string]any)["patient"].(map[string]any)
				patient["active"], patient["text_message_notification"], patient["discount"] = "true", "true", "12.5"
			})
			respelled := strings.NewReplacer("recommended_amount", "amount", "recommended_frequency", "frequency", "recommended_duration", "duration")
			body := respelled.Replace(string(c.newEventOf(model.EventTreatmentPlanUpdated).body()))
			c.accepts("treatment_plan.updated with the dosage as in answers", c.deliver([]byte(body)))
		},
		consequence: "events fail whose booleans and numbers come as strings, or whose dosage is spelled as in answers; both are seen.",
		fix:         "do not decode an event's data before it is acknowledged, and be lenient when you do.",
	},
	{
		name: "Events/Wrapping",
		run: func(c *checker) {
			for kind, name := range sortedByKey(map[string]string{model.EventOrderPlaced: "order", model.EventProductCreated: "product"}) {
				direct, wrapped := c.newEventOf(kind), c.newEventOf(kind)
				wrapped.Data = encode(map[string]any{name: wrapped.Data})
				for where, ev := range sortedByKey(map[string]event{"data": direct, "data." + name: wrapped}) {
					if c.accepts(kind+" with its fields in "+where, c.deliver(ev.body())) && kind == c.Hooks.EventType {
						c.handled(ev, 1)
					}
				}
			}
		},
		consequence: "orders, or new products, are lost: their data is seen directly in data as well as under order and product.",
		fix:         "look for the object under its name in data, and in data itself.",
	},
	{
		name: "Events/Payload", needs: needsEnvelopes,
		run: func(c *checker) {
			ev := c.newEvent()
			c.takes("an event in event_payload", ev, c.deliver(encode(map[string]any{"event_payload": map[string]event{"event": ev}})))
		},
		consequence: `events in {"event_payload":{"event":{…}}} are lost; the delivery log has that form, and it is seen in webhooks, too.`,
		fix:         "look for event in event_payload if it is not on top.",
	},
	{
		name: "Events/Bare", needs: needsEnvelopes,
		run: func(c *checker) {
			ev := c.newEvent()
			c.takes("an event without a wrapper", ev, c.deliver(encode(ev)))
		},
		consequence: "an event that comes without a wrapper is lost. This form is an assumption, for safety.",
		fix:         "take the body itself for the event if it has an id and a type.",
	},
}

// acceptsEdited demands that a new event is accepted after a change to its members.
func (c *checker) acceptsEdited(what, eventType string, change func(event map[string]any)) {
	c.accepts(what, c.deliver(c.newEventOf(eventType).edited(change)))
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
