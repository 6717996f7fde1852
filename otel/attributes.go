package dispensaryotel

import (
	"net"
	"slices"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/otel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook"
)

// environment says which of the platform's environments a signal is about.
func environment(e api.Environment) []signal.Attribute {
	return []signal.Attribute{signal.Region.Of(string(e.Region)), signal.Stage.Of(string(e.Stage))}
}

// other is what this package does not know by name.
const other = "_OTHER"

// callShapes are how the spans of a call begin.
type callShapes struct{ call, attempt *signal.Shape }

func newCallShapes(c observe.Call) callShapes {
	return callShapes{
		call:    signal.NewShape(c.Operation, trace.SpanKindInternal, operation(c)...),
		attempt: signal.NewShape(c.Method+" "+c.Route, trace.SpanKindClient, append(request(c), signal.Operation.Of(c.Operation))...),
	}
}

// answerKey is what calls and attempts are counted by.
type answerKey struct {
	observe.Call
	status int
	why    string
}

// callSeries are those of the durations of a call.
type callSeries struct{ call, attempt *signal.Series }

func newCallSeries(k answerKey) callSeries {
	var answer []signal.Attribute
	if k.status != 0 {
		answer = append(answer, signal.Status.Of(k.status))
	}
	if k.why != "" {
		answer = append(answer, signal.Error.Of(k.why))
	}
	return callSeries{
		call:    signal.NewSeries(append(operation(k.Call), answer...)...),
		attempt: signal.NewSeries(append(request(k.Call), answer...)...),
	}
}

// waitKey is what retries and waits are counted by; reason is empty for waits.
type waitKey struct {
	operation   string
	environment api.Environment
	reason      observe.RetryReason
}

func newWaitSeries(k waitKey) *signal.Series {
	attributes := operation(observe.Call{Operation: k.operation, Environment: k.environment})
	if k.reason != "" {
		attributes = append(attributes, signal.RetryReason.Of(string(k.reason)))
	}
	return signal.NewSeries(attributes...)
}

// operation says which call it is.
func operation(c observe.Call) []signal.Attribute {
	return append(environment(c.Environment), signal.Operation.Of(c.Operation))
}

// request says what the conventions ask for of an HTTP request, but for its
// address.
func request(c observe.Call) []signal.Attribute {
	host, port := c.Host, ""
	if h, p, err := net.SplitHostPort(c.Host); err == nil {
		host, port = h, p
	}
	attributes := []signal.Attribute{signal.Method.Of(c.Method), signal.Route.Of(c.Route), signal.ServerAddress.Of(host)}
	if n, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, signal.ServerPort.Of(n))
	}
	return attributes
}

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

// requestKey is what requests are counted by.
type requestKey struct {
	outcome     webhook.Outcome
	status      int
	kind        string // of the event; empty if none was read
	environment api.Environment
	why         string
}

func (k requestKey) attributes() []signal.Attribute {
	attributes := []signal.Attribute{signal.WebhookOutcome.Of(string(k.outcome)), signal.Status.Of(k.status)}
	if k.kind != "" {
		attributes = append(append(attributes, signal.EventType.Of(k.kind)), environment(k.environment)...)
	}
	if k.why != "" {
		attributes = append(attributes, signal.Error.Of(k.why))
	}
	return attributes
}

func newRequestSeries(k requestKey) *signal.Series { return signal.NewSeries(k.attributes()...) }
