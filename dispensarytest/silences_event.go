package dispensarytest

import "time"

func eventSilences() []Silence {
	return []Silence{
		silence(SilencePlanCreatedEvent, "Event types", "Whether a plan counts as created when it is drafted or when it is sent is not said; the latter is seen.", []Reading{
			{"on-activation", "a draft makes treatment_plan.created when it is activated", func(r *readings) { r.draftMakesEvent = false }},
			{"on-creation", "a draft makes it at once, and treatment_plan.updated when it is activated", func(r *readings) { r.draftMakesEvent = true }},
		}),
		silence(SilenceEventTimes, "Event", "Whether two events of one object can have the same created_at, which has milliseconds, is not said. A receiver that orders by time cannot tell them apart.", []Reading{
			{"apart", "an event is at least a millisecond later than the one before of the same object, and may be ahead of the clock; updated_at of a plan goes with it", func(r *readings) { r.eventsTie = false }},
			{"as-they-fall", "events have the clock's time, which can be the same", func(r *readings) { r.eventsTie = true }},
		}),
		silence(SilenceProductEventClinic, "Webhooks 6", "The table of an event says that product events have no clinic_id, the section on webhooks that each payload has one.", []Reading{
			{"absent", "webhooks of product events have none", func(r *readings) { r.clinicOnProducts = false }},
			{"present", "they have that of the integration they are sent to; the event lists have none", func(r *readings) { r.clinicOnProducts = true }},
		}),
		silence(SilenceUnwrappedEventData, "Events", "The data of most types is not shown; order.placed and product.created are seen without a wrapper.", []Reading{
			{"orders-and-new-products", "order.placed and product.created are not wrapped", func(r *readings) { r.wrapAll = false }},
			{"none", "all data is wrapped under its kind", func(r *readings) { r.wrapAll = true }},
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

func webhookSilences() []Silence {
	probe := func(r *readings) *ProbeMode { return &r.probe }
	timeout := func(r *readings) *time.Duration { return &r.sendTimeout }
	schedule := func(r *readings) *[]time.Duration { return &r.retrySchedule }
	return []Silence{
		silence(SilenceProbe, "Webhooks", "An empty test call is not mentioned, but seen on registration and before each event.", []Reading{
			{"off", "none", sets(probe, ProbeOff)},
			{"on-registration", "once, when the endpoint is registered", sets(probe, ProbeOnRegistration)},
			{"before-each", "then, and before every attempt", sets(probe, ProbeBeforeEach)},
		}),
		silence(SilenceProbeSignature, "Webhooks", "Whether the test call is signed is not documented.", []Reading{
			{"signed", "as any other", func(r *readings) { r.unsignedProbe = false }},
			{"unsigned", "without the header", func(r *readings) { r.unsignedProbe = true }},
		}),
		silence(SilenceDeliveryConditions, "Webhooks 6", "That a live token with the event's scope is needed is seen, not documented.", []Reading{
			{"enforced", "events without one are not sent", func(r *readings) { r.unconditional = false }},
			{"off", "every event is sent", func(r *readings) { r.unconditional = true }},
		}),
		silence(SilenceDeliveryTimeout, "Webhooks 5", "The time-out is called aggressive; 2 seconds are seen.", []Reading{
			{"2s", "2 seconds", sets(timeout, 2*time.Second)}, {"1s", "1 second", sets(timeout, time.Second)}, {"5s", "5 seconds", sets(timeout, 5*time.Second)},
		}),
		silence(SilenceRetrySchedule, "Webhooks 4", "Up to six attempts back off exponentially; the waits are not documented.", []Reading{
			{"1m-5m-30m-1h-5h", "the waits that are seen", sets(schedule, []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour})},
			{"doubling", "5, 10, 20, 40 and 80 minutes", sets(schedule, doubling())},
		}),
	}
}

// logSilences are about what is left of a delivery.
func logSilences() []Silence {
	envelope := func(r *readings) *string { return &r.payloadName }
	return []Silence{
		silence(SilenceResumeAfterEnable, "Webhooks 8", "What becomes of deliveries that stopped when the endpoint is enabled again is not said.", []Reading{
			{"dropped", "nothing is resumed; the event lists have them", func(r *readings) { r.resume = false }},
			{"resumed", "what has attempts left is attempted at once", func(r *readings) { r.resume = true }},
		}),
		silence(SilenceDeliveryLog, "Webhook deliveries", "Whether the log has a row for each delivery or for each attempt is not said.", []Reading{
			{"delivery", "one row, as the latest attempt left it", func(r *readings) { r.logAttempts = false }},
			{"attempt", "one row for each attempt", func(r *readings) { r.logAttempts = true }},
		}),
		silence(SilenceUnansweredStatus, "Webhook delivery", "response_status without an answer is not shown.", []Reading{
			{"null", "null", func(r *readings) { r.zeroStatus = false }},
			{"zero", "0", func(r *readings) { r.zeroStatus = true }},
		}),
		silence(SilenceWebhookEnvelope, "Webhooks 2", "Payloads are wrapped in event; event_payload around it is seen, too.", []Reading{
			{"event", `{"event":{…}}`, sets(envelope, "")},
			{"event-payload", `{"event_payload":{"event":{…}}}`, sets(envelope, "event_payload")},
		}),
	}
}
