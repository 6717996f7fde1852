package dispensaryotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
)

// Config contains the OpenTelemetry providers. The zero value uses the global providers.
type Config struct {
	// TracerProvider creates the spans. Nil means the global provider.
	TracerProvider trace.TracerProvider

	// MeterProvider creates the metrics. Nil means the global provider.
	MeterProvider metric.MeterProvider
}

// Telemetry creates spans and metrics from the reports of this module's packages. Create one
// when the program starts and share it. It is safe for concurrent use.
type Telemetry struct {
	tracer   signal.Tracer
	meter    *signal.Meter
	accepted links

	callDuration    signal.Histogram
	requestDuration signal.Histogram
	retries         signal.Counter
	limiterWait     signal.Histogram
	invalidFields   signal.Counter

	refreshDuration signal.Histogram
	tokenEvents     signal.Counter

	webhookDuration signal.Histogram
	acceptDuration  signal.Histogram
	processDuration signal.Histogram
	inboxWait       signal.Histogram
	deadLetters     signal.Counter

	reconcileDuration signal.Histogram
	reconcileEvents   signal.Counter

	inboxEvents signal.Gauge
	inboxAge    signal.Gauge
}

// scope is the name of the instrumentation.
const scope = "github.com/dispensary-go/dispensary/dispensaryotel"

// New returns a Telemetry. It fails if the meter provider rejects an instrument.
func New(c Config) (*Telemetry, error) {
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	m := signal.NewMeter(c.MeterProvider, scope, dispensary.Version())
	t := &Telemetry{
		tracer: signal.NewTracer(c.TracerProvider, scope, dispensary.Version()),
		meter:  m,

		callDuration:    m.Histogram("dispensary.client.call.duration", "Duration of API calls, including retries and all waits.", signal.Requests),
		requestDuration: m.Histogram("http.client.request.duration", "Duration of HTTP client requests.", signal.Requests),
		retries:         m.Counter("dispensary.client.retries", "Retried requests.", "{request}"),
		limiterWait:     m.Histogram("dispensary.client.limiter.wait", "Waits for the client's rate limiter and for the end of the platform's Retry-After.", signal.Waits),
		invalidFields:   m.Counter("dispensary.client.invalid_fields", "Response fields that cannot be decoded.", "{field}"),

		refreshDuration: m.Histogram("dispensary.oauth.refresh.duration", "Duration of token refreshes, including the store and the wait for other replicas.", signal.Requests),
		tokenEvents:     m.Counter("dispensary.oauth.events", "Events of users' connections and of the application.", "{event}"),

		webhookDuration: m.Histogram("dispensary.webhook.request.duration", "Duration of webhook requests, until the response.", signal.Requests),
		acceptDuration:  m.Histogram("messaging.client.operation.duration", "Duration of storing an event in the inbox.", signal.Requests),
		processDuration: m.Histogram("messaging.process.duration", "Duration of attempts to handle an event.", signal.Requests),
		inboxWait:       m.Histogram("dispensary.inbox.wait", "Time from an event's arrival to its first attempt: the lag of the inbox.", signal.Waits),
		deadLetters:     m.Counter("dispensary.inbox.dead_letters", "Events that became dead letters.", "{event}"),

		reconcileDuration: m.Histogram("dispensary.reconcile.run.duration", "Duration of searches for missed webhooks of one clinic.", signal.Waits),
		reconcileEvents:   m.Counter("dispensary.reconcile.events", "Events whose webhooks never arrived.", "{event}"),

		inboxEvents: m.Gauge("dispensary.inbox.events", "Events stored in an inbox.", "{event}"),
		inboxAge:    m.Gauge("dispensary.inbox.age", "Age of the oldest unhandled event.", "s"),
	}
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("dispensaryotel: %w", err)
	}
	return t, nil
}

// spanKey is the context key of a started span, to end it. OpenTelemetry's current span in the
// context may belong to another observer.
type spanKey struct {
	of   *Telemetry
	what spanOf
}

// spanOf is the subject of a span.
type spanOf int

const (
	ofCall spanOf = iota
	ofAttempt
	ofRefresh
	ofRequest
	ofProcessing
)

// begin starts a span that begunIn finds in the returned context. It does not store an
// unrecorded span, unless begunIn would otherwise return an outer span.
func (t *Telemetry) begin(ctx context.Context, what spanOf, name string, kind trace.SpanKind, cause trace.SpanContext, attributes ...signal.Attribute) (context.Context, signal.Span) {
	ctx, span := t.tracer.Start(ctx, name, kind, cause, attributes...)
	if !span.Recording() && !t.begunIn(ctx, what).Recording() {
		return ctx, span
	}
	return context.WithValue(ctx, spanKey{t, what}, span), span
}

// begunIn returns the span that begin stored in ctx, or the zero span if there is none.
func (t *Telemetry) begunIn(ctx context.Context, what spanOf) signal.Span {
	span, _ := ctx.Value(spanKey{t, what}).(signal.Span)
	return span
}

// environment returns the attributes of an environment.
func environment(e api.Environment) []signal.Attribute {
	region, stage, _ := strings.Cut(string(e), "/")
	return []signal.Attribute{signal.Region.Of(region), signal.Stage.Of(stage)}
}

// other replaces every value that this package does not know.
const other = "_OTHER"

// operation returns the attributes of an operation.
func operation(e api.Environment, name string) []signal.Attribute {
	return append(environment(e), signal.Operation.Of(name))
}

// response returns the attributes of a response or a failure.
func response(status int, why string) (attributes []signal.Attribute) {
	if status != 0 {
		attributes = append(attributes, signal.Status.Of(status))
	}
	return append(attributes, failed(why)...)
}

// failed returns the attribute of a failure, or none if why is empty.
func failed(why string) []signal.Attribute {
	if why == "" {
		return nil
	}
	return []signal.Attribute{signal.Error.Of(why)}
}

// request returns the attributes that the conventions require of an HTTP request, except the
// URL.
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

// event returns the attributes of an event, under the conventions' names for messages.
func event(d webhook.Delivery, operation, kind string) []signal.Attribute {
	return append(environment(d.Key.Environment),
		signal.System.Of("dispensary"), signal.Destination.Of("inbox"), signal.EventType.Of(typeOf(d.Type)),
		signal.OperationName.Of(operation), signal.OperationType.Of(kind))
}

// known contains the event types that signals name.
var known = []events.Type{
	events.TypeClinicKeyActivated, events.TypeClinicKeyRevoked, events.TypeOrderPlaced, events.TypePatientCreated, events.TypePatientUpdated,
	events.TypeProductCreated, events.TypeProductDescriptionUpdated, events.TypeProductUpdated, events.TypeTreatmentPlanCreated,
	events.TypeTreatmentPlanRecommendationUpdated, events.TypeTreatmentPlanUpdated,
}

// typeOf returns the name of a known event type. An unknown type could contain any text, so
// only the log contains it.
func typeOf(kind events.Type) string {
	if slices.Contains(known, kind) {
		return string(kind)
	}
	return other
}

// webhookRequest returns the attributes of a webhook request.
func webhookRequest(o webhook.Observation) []signal.Attribute {
	attributes := []signal.Attribute{signal.WebhookOutcome.Of(string(o.Outcome)), signal.Status.Of(o.Status)}
	if o.Key.EventID != "" {
		attributes = append(append(attributes, signal.EventType.Of(typeOf(o.Type))), environment(o.Key.Environment)...)
	}
	return append(attributes, failed(reason(o.Err))...)
}

// reasons contains the words for errors of this module, more specific ones first.
var reasons = []struct {
	err  error
	word string
}{
	{webhook.ErrUnknownPath, "unknown_path"},
	{webhook.ErrMethod, "method"},
	{webhook.ErrUnknownTenant, "unknown_tenant"},
	{webhook.ErrTenant, "tenant"},
	{webhook.ErrSignatureMissing, "signature_missing"},
	{webhook.ErrSignatureMalformed, "signature_malformed"},
	{webhook.ErrBodyConsumed, "body_consumed"},
	{webhook.ErrSignatureMismatch, "signature_mismatch"},
	{webhook.ErrTimestampTooOld, "timestamp_too_old"},
	{webhook.ErrTimestampTooNew, "timestamp_too_new"},
	{webhook.ErrBodyTooLarge, "body_too_large"},
	{webhook.ErrBodyUnreadable, "body_unreadable"},
	{events.ErrMalformed, "malformed"},
	{events.ErrNoEvent, "no_event"},
	{webhook.ErrInboxFull, "inbox_full"},
	{webhook.ErrInboxClosed, "inbox_closed"},
	{webhook.ErrInboxTimeout, "inbox_timeout"},
	{webhook.ErrInbox, "inbox"},
	{webhook.ErrAbandoned, "abandoned"},
	{webhook.ErrBodyLost, "body_lost"},
	{events.ErrBadData, "bad_data"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// reason returns a word for an error: the code of [webhook.WithReason], the word of a known
// error, or the type of an unknown one. It never returns the error's text, which may repeat
// the data of an event. It is empty for nil.
func reason(err error) string {
	if err == nil {
		return ""
	}
	if code := webhook.ReasonCode(err); code != "" {
		return code
	}
	var panicked webhook.PanicError
	if errors.As(err, &panicked) {
		return "panic"
	}
	for _, known := range reasons {
		if errors.Is(err, known.err) {
			return known.word
		}
	}
	var call *api.Error
	switch {
	case errors.As(err, &call) && call != nil && call.StatusCode != 0:
		return strconv.Itoa(call.StatusCode)
	case errors.Is(err, api.ErrReauthorize):
		return string(observe.FailureReauthorize)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("%T", err)
}
