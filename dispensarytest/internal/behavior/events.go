package behavior

import "time"

func eventChoices() []Choice {
	return []Choice{
		choice("plan-created-event", "Event types", "Whether a plan counts as created when it is drafted or when it is sent is not said; the latter is seen.", []Variant{
			{"on-activation", "a draft makes treatment_plan.created when it is activated", func(r *Set) { r.DraftMakesEvent = false }},
			{"on-creation", "a draft makes it at once, and treatment_plan.updated when it is activated", func(r *Set) { r.DraftMakesEvent = true }},
		}),
		choice("event-times", "Event", "Whether two events of one object can have the same created_at, which has milliseconds, is not said. A receiver that orders by time cannot tell them apart.", []Variant{
			{"apart", "an event is at least a millisecond later than the one before of the same object, and may be ahead of the clock; updated_at of a plan goes with it", func(r *Set) { r.EventsTie = false }},
			{"as-they-fall", "events have the clock's time, which can be the same", func(r *Set) { r.EventsTie = true }},
		}),
		choice("product-event-clinic", "Webhooks 6", "The table of an event says that product events have no clinic_id, the section on webhooks that each payload has one.", []Variant{
			{"absent", "webhooks of product events have none", func(r *Set) { r.ClinicOnProducts = false }},
			{"present", "they have that of the integration they are sent to; the event lists have none", func(r *Set) { r.ClinicOnProducts = true }},
		}),
		choice("unwrapped-event-data", "Events", "The data of most types is not shown; order.placed and product.created are seen without a wrapper.", []Variant{
			{"orders-and-new-products", "order.placed and product.created are not wrapped", func(r *Set) { r.WrapAll = false }},
			{"none", "all data is wrapped under its kind", func(r *Set) { r.WrapAll = true }},
		}),
	}
}

// doubling is exponential in the narrow sense.
func doubling() []time.Duration {
	waits := make([]time.Duration, 5)
	for i := range waits {
		waits[i] = 5 * time.Minute << i
	}
	return waits
}

func webhookChoices() []Choice {
	probe := func(r *Set) *probeMode { return &r.Probe }
	timeout := func(r *Set) *time.Duration { return &r.SendTimeout }
	schedule := func(r *Set) *[]time.Duration { return &r.RetrySchedule }
	return []Choice{
		choice("probe", "Webhooks", "An empty test call is not mentioned, but seen on registration and before each event.", []Variant{
			{"off", "none", sets(probe, ProbeNever)},
			{"on-registration", "once, when the endpoint is registered", sets(probe, probeOnRegistration)},
			{"before-each", "then, and before every attempt", sets(probe, ProbeBeforeEach)},
		}),
		choice("probe-signature", "Webhooks", "Whether the test call is signed is not documented.", []Variant{
			{"signed", "as any other", func(r *Set) { r.UnsignedProbe = false }},
			{"unsigned", "without the header", func(r *Set) { r.UnsignedProbe = true }},
		}),
		choice("delivery-conditions", "Webhooks 6", "That a live token with the event's scope is needed is seen, not documented.", []Variant{
			{"enforced", "events without one are not sent", func(r *Set) { r.Unconditional = false }},
			{"off", "every event is sent", func(r *Set) { r.Unconditional = true }},
		}),
		choice("delivery-timeout", "Webhooks 5", "The time-out is called aggressive; 2 seconds are seen.", []Variant{
			{"2s", "2 seconds", sets(timeout, 2*time.Second)}, {"1s", "1 second", sets(timeout, time.Second)}, {"5s", "5 seconds", sets(timeout, 5*time.Second)},
		}),
		choice("retry-schedule", "Webhooks 4", "Up to six attempts back off exponentially; the waits are not documented.", []Variant{
			{"1m-5m-30m-1h-5h", "the waits that are seen", sets(schedule, []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour})},
			{"doubling", "5, 10, 20, 40 and 80 minutes", sets(schedule, doubling())},
		}),
	}
}

// logChoices are about what is left of a delivery.
func logChoices() []Choice {
	envelope := func(r *Set) *string { return &r.PayloadName }
	return []Choice{
		choice("resume-after-enable", "Webhooks 8", "What becomes of deliveries that stopped when the endpoint is enabled again is not said.", []Variant{
			{"dropped", "nothing is resumed; the event lists have them", func(r *Set) { r.Resume = false }},
			{"resumed", "what has attempts left is attempted at once", func(r *Set) { r.Resume = true }},
		}),
		choice("delivery-log", "Webhook deliveries", "Whether the log has a row for each delivery or for each attempt is not said.", []Variant{
			{"delivery", "one row, as the latest attempt left it", func(r *Set) { r.LogAttempts = false }},
			{"attempt", "one row for each attempt", func(r *Set) { r.LogAttempts = true }},
		}),
		choice("unanswered-status", "Webhook delivery", "response_status without an answer is not shown.", []Variant{
			{"null", "null", func(r *Set) { r.ZeroStatus = false }},
			{"zero", "0", func(r *Set) { r.ZeroStatus = true }},
		}),
		choice("webhook-envelope", "Webhooks 2", "Payloads are wrapped in event; event_payload around it is seen, too.", []Variant{
			{"event", `{"event":{…}}`, sets(envelope, "")},
			{"event-payload", `{"event_payload":{"event":{…}}}`, sets(envelope, "event_payload")},
		}),
	}
}
