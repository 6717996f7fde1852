package dispensaryotel

import (
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/otel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook"
)

// eventKey is what is done with events, and what that is counted by.
type eventKey struct {
	operation   string // "accept" or "process"
	kind        string // of the event
	environment api.Environment
	outcome     string // of what was done; empty if that is not known yet, or failed
	why         string
}

func newEventKey(d webhook.Delivery, operation string) eventKey {
	return eventKey{operation: operation, kind: typeOf(d.Type), environment: d.Key.Environment}
}

// attributes are those that the conventions ask for of messages, and the event's.
func (k eventKey) attributes() []signal.Attribute {
	kind := "process"
	if k.operation == "accept" {
		kind = "send"
	}
	return append(environment(k.environment),
		signal.System.Of("dispensary"), signal.Destination.Of("inbox"), signal.EventType.Of(k.kind),
		signal.OperationName.Of(k.operation), signal.OperationType.Of(kind))
}

func newEventShape(k eventKey) *signal.Shape {
	kind := trace.SpanKindConsumer
	if k.operation == "accept" {
		kind = trace.SpanKindProducer
	}
	return signal.NewShape(k.operation+" "+k.kind, kind, k.attributes()...)
}

func newEventSeries(k eventKey) *signal.Series {
	attributes := k.attributes()
	switch {
	case k.outcome == "":
	case k.operation == "accept":
		attributes = append(attributes, signal.WebhookOutcome.Of(k.outcome))
	default:
		attributes = append(attributes, signal.Result.Of(k.outcome))
	}
	if k.why != "" {
		attributes = append(attributes, signal.Error.Of(k.why))
	}
	return signal.NewSeries(attributes...)
}

// known are the event types that signals name.
var known = []events.Type{
	events.ClinicKeyActivated, events.ClinicKeyRevoked, events.OrderPlaced, events.PatientCreated, events.PatientUpdated,
	events.ProductCreated, events.ProductDescriptionUpdated, events.ProductUpdated, events.TreatmentPlanCreated,
	events.TreatmentPlanRecommendationUpdated, events.TreatmentPlanUpdated,
}

// typeOf returns the name of an event type. One that is not known could be
// anything; the log has it.
func typeOf(kind events.Type) string {
	if slices.Contains(known, kind) {
		return string(kind)
	}
	return other
}
