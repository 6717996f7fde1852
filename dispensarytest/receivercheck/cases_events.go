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
		consequence: "the platform counts the delivery as failed, sends the event five more times, and disables the endpoint after 24 hours",
		fix:         `respond to events with 200, Content-Type: application/json and the body {"challenge":"<the challenge token>"}, with the challenge token from the dashboard and not the secret`,
	},
	{
		name:        "Challenge/Probe",
		run:         func(c *checker) { c.acknowledges("an empty body with a valid signature", c.deliver(nil)) },
		consequence: "the platform does not register an endpoint without an acknowledged test call, or sends no events if it makes the call before each event",
		fix:         "acknowledge an empty body with a valid signature like an event, but do not handle it",
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
		consequence: "any caller gets the challenge token and can respond in your name; or registration fails if the platform sends unsigned probes",
		fix:         "respond with 401 to an empty body without a signature, unless registration then fails; configure this test for the intended behavior of unsigned probes",
	},
	{
		name: "Challenge/OnlyPost",
		run: func(c *checker) {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete} {
				c.refusesMethod(method)
			}
		},
		consequence: "a link in an email or a crawler triggers events or gets the challenge token",
		fix:         "respond with 405 to every method except POST",
	},
}

// refusesMethod requires an error for an event that is not sent with POST. A status of 500 or more
// is correct too: servers respond with 501 to a method that they do not know. Case
// Always/TellsNothing reports an error with the challenge token.
func (c *checker) refusesMethod(method string) {
	ev := c.newEvent()
	r := c.signed(ev.body())
	r.genuine, r.method = false, method
	if e := c.post(r); e.err != nil || e.status < http.StatusBadRequest {
		c.reportf("does not reject a signed event sent with %s but %s (required: 405 or another error)", method, c.describe(e))
	}
	c.neverHandled(ev)
}

var eventCases = []testCase{
	{
		name: "Events/EveryType",
		run: func(c *checker) {
			for _, kind := range model.EventTypes() {
				c.accepts(kind, c.deliver(c.newEventOf(kind).body()))
			}
		},
		consequence: "events of this type are sent six times and then lost",
		fix:         "acknowledge every signed event, including types that you do not use, and decide later whether to handle it",
	},
	{
		name: "Events/UnknownType",
		run: func(c *checker) {
			ev := c.newEventOf("treatment_plan.archived")
			ev.Data = json.RawMessage(`{"archive":{"id":"a-1"}}`)
			c.accepts("an event of type treatment_plan.archived", c.deliver(ev.body()))
		},
		consequence: "events fail as soon as the platform adds a type, and the endpoint is disabled if the platform sends no other events for 24 hours",
		fix:         "store and acknowledge events of any type; skip unknown types in the handler",
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
		consequence: "events with new fields fail, although the API counts new fields as compatible",
		fix:         "ignore unknown fields (in Go do not use DisallowUnknownFields)",
	},
	{
		name: "Events/MissingFields",
		run: func(c *checker) {
			for _, field := range []string{"clinic_id", "integration_id", "created_at"} {
				c.acceptsEdited("an event without "+field, c.Hooks.EventType, func(event map[string]any) { delete(event, field) })
				c.acceptsEdited("an event with "+field+" null", c.Hooks.EventType, func(event map[string]any) { event[field] = nil })
			}
			for _, kind := range []string{model.EventOrderPlaced, model.EventPatientUpdated, model.EventProductUpdated, model.EventTreatmentPlanUpdated} {
				c.acceptsEdited(kind+" with null data", kind, func(event map[string]any) { event["data"] = nil })
				c.acceptsEdited(kind+" with only an id in its object", kind, func(event map[string]any) { strip(event["data"].(map[string]any)) })
			}
		},
		consequence: "events without these fields fail or crash the process: product events have no clinic_id, other events have integration_id only if relevant, and many members of an object can be null",
		fix:         "require only an ID and a type to acknowledge an event; check the rest in the handler",
	},
	{
		name: "Events/OtherForms",
		run: func(c *checker) {
			c.acceptsEdited("patient.updated with booleans and numbers as strings", model.EventPatientUpdated, func(event map[string]any) {
				patient := event["data"].(map[string]any)["patient"].(map[string]any)
				patient["active"], patient["text_message_notification"], patient["discount"] = "true", "true", "12.5"
			})
			respelled := strings.NewReplacer("recommended_amount", "amount", "recommended_frequency", "frequency", "recommended_duration", "duration")
			body := respelled.Replace(string(c.newEventOf(model.EventTreatmentPlanUpdated).body()))
			c.accepts("treatment_plan.updated with the dosage as in API responses", c.deliver([]byte(body)))
		},
		consequence: "events fail if booleans and numbers are strings, or if the dosage has the field names of API responses; both occur",
		fix:         "decode the data of an event after acknowledging it, and leniently",
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
		consequence: "orders or new products are lost: their fields occur directly in data as well as under order and product",
		fix:         "read the object under its name in data, or from data itself",
	},
	{
		name: "Events/Payload", needs: needsEnvelopes,
		run: func(c *checker) {
			ev := c.newEvent()
			c.takes("an event in event_payload", ev, c.deliver(encode(map[string]any{"event_payload": map[string]event{"event": ev}})))
		},
		consequence: `events in {"event_payload":{"event":{…}}} are lost; this form occurs in the delivery log and in webhooks`,
		fix:         "read event from event_payload if the top level does not contain it",
	},
	{
		name: "Events/Bare", needs: needsEnvelopes,
		run: func(c *checker) {
			ev := c.newEvent()
			c.takes("an event without a wrapper", ev, c.deliver(encode(ev)))
		},
		consequence: "an event without a wrapper is lost; this form is a precautionary assumption",
		fix:         "use the body itself as the event if it has an ID and a type",
	},
}

// acceptsEdited requires that the endpoint accepts a new event after change has modified its
// members.
func (c *checker) acceptsEdited(what, eventType string, change func(event map[string]any)) {
	c.accepts(what, c.deliver(c.newEventOf(eventType).edited(change)))
}

// strip removes all members except the ID from an object, or from the objects in it.
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
