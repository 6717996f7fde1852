package receivercheck

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

var challengeCases = []testCase{
	{
		name: "Challenge/Response",
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
			demand := (*checker).rejects
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
				c.rejectsMethod(method)
			}
		},
		consequence: "a link in an email or a crawler triggers events or gets the challenge token",
		fix:         "respond with 405 to every method except POST",
	},
}

// rejectsMethod requires an error for an event that is not sent with POST. A status of 500 or more
// is correct too: servers respond with 501 to a method that they do not know. Case
// Always/TellsNothing reports an error with the challenge token.
func (c *checker) rejectsMethod(method string) {
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
				wrapped.Data = view.Encode(map[string]any{name: wrapped.Data})
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
			c.takes("an event in event_payload", ev, c.deliver(view.Encode(map[string]any{"event_payload": map[string]event{"event": ev}})))
		},
		consequence: `events in {"event_payload":{"event":{…}}} are lost; this form occurs in the delivery log and in webhooks`,
		fix:         "read event from event_payload if the top level does not contain it",
	},
	{
		name: "Events/Bare", needs: needsEnvelopes,
		run: func(c *checker) {
			ev := c.newEvent()
			c.takes("an event without a wrapper", ev, c.deliver(view.Encode(ev)))
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

const uniqueKey = "store the event under a unique key of event ID and integration ID (INSERT … ON CONFLICT DO NOTHING), and handle it only if the statement inserted it; do not query first and insert then"

var deliveryCases = []testCase{
	{
		name: "Delivery/Repeated",
		run: func(c *checker) {
			ev := c.newEvent()
			if !c.takes("an event", ev, c.deliver(ev.body())) {
				return
			}
			for range 2 {
				if !c.acknowledges("an event that it has already handled", c.deliver(ev.body())) {
					return
				}
			}
			c.drain(ev)
		},
		consequence: "the platform repeats an event if the response was lost, and the event is handled twice or fails until the endpoint is disabled",
		fix:         "respond to a known event with the challenge, as for the first time; " + uniqueKey,
	},
	{
		name: "Delivery/Concurrent", run: (*checker).concurrent,
		consequence: "copies of an event that arrive at the same time, such as at two replicas, are handled twice",
		fix:         uniqueKey,
	},
	{
		name: "Delivery/Integrations",
		run: func(c *checker) {
			ev := c.newEvent()
			other := ev
			other.IntegrationID = c.samples.integrationIDs[1]
			if !c.takes("an event for one integration", ev, c.deliver(ev.body())) ||
				!c.accepts("the same event for another integration", c.deliver(other.body())) {
				return
			}
			c.handled(ev, 2)
			c.accepts("a repetition of one of them", c.deliver(ev.body()))
			c.accepts("a repetition of one of them", c.deliver(other.body()))
			c.drain(ev)
		},
		consequence: "a clinic with two integrations gets the same event for each of them, and the event of the second is never handled",
		fix:         "include the integration ID in the key that identifies duplicates",
	},
	{
		name: "Delivery/Reordered",
		run: func(c *checker) {
			older := c.newEvent().at(c.Timing.Now().Add(-time.Hour))
			c.takesEvent("an event", func(*request) {})
			if c.accepts("an event one hour older than the previous event", c.deliver(older.body())) {
				c.expectedHandled[older.ID] = 1 // the receiver may also skip the outdated event
			}
		},
		consequence: "events can arrive out of order, and a late older event fails six times or is lost",
		fix:         "acknowledge events in any order; compare created_at in the handler, or read the object from the API",
	},
	{
		name: "Delivery/StorageDown", needs: needsBreakStorage,
		run: func(c *checker) {
			ev := c.newEvent()
			c.Hooks.BreakStorage(true)
			repair := sync.OnceFunc(func() { c.Hooks.BreakStorage(false) })
			defer repair()
			for range 2 {
				if e := c.deliver(ev.body()); e.accepted() {
					c.reportf("accepts an event that it could not store: %s", c.describe(e))
					return
				}
			}
			repair()
			c.takes("a repeated event after the storage recovered", ev, c.deliver(ev.body()))
		},
		consequence: "the platform never repeats an acknowledged event, so every event that arrives during a database outage is lost",
		fix:         "respond with 200 after the event is stored and committed, and with 503 if that fails: the platform retries",
	},
	{
		name: "Delivery/SlowHandler", needs: needsBlockHandler,
		run: func(c *checker) {
			c.Hooks.BlockHandler(true)
			release := sync.OnceFunc(func() { c.Hooks.BlockHandler(false) })
			defer release()
			events := []event{c.newEvent(), c.newEvent()}
			for _, ev := range events {
				if !c.accepts("an event while the handler is blocked", c.deliver(ev.body())) {
					return
				}
			}
			c.accepts("a repetition of the first event while it is being handled", c.deliver(events[0].body()))
			release()
			for _, ev := range events {
				c.handled(ev, 1)
			}
			c.drain(events...)
		},
		consequence: "the platform stops waiting and repeats the event, which adds to the slow work, and it disables the endpoint after 24 hours",
		fix:         "store the event, respond, and handle it outside the request",
	},
}

// duplicatesAtOnce is the number of concurrent copies of an event.
const duplicatesAtOnce = 50

func (c *checker) concurrent() {
	ev := c.newEvent()
	body := ev.body()
	responses := make([]exchange, duplicatesAtOnce)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range responses {
		all.Go(func() {
			<-start
			responses[i] = c.deliver(body)
		})
	}
	close(start)
	all.Wait()
	taken := false
	for _, e := range responses {
		switch {
		case e.accepted():
			taken = true
		case e.err != nil || e.status/100 != 5 && e.status != http.StatusConflict && e.status != http.StatusTooManyRequests:
			c.reportf("fails on one of %d concurrent copies of an event: %s; respond with 200, or with 503 to the copies that lost the race", duplicatesAtOnce, c.describe(e))
			return
		}
	}
	if !taken {
		c.reportf("accepts none of %d concurrent copies of an event: %s to the last one", duplicatesAtOnce, c.describe(responses[len(responses)-1]))
		return
	}
	c.handled(ev, 1)
	c.drain(ev)
}
