package dispensaryotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
)

// Config says where signals go. The zero value is a good one.
type Config struct {
	// TracerProvider makes the spans; nil means the global one.
	TracerProvider trace.TracerProvider

	// MeterProvider makes the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
}

// Telemetry makes spans and metrics of what the module's packages report. Make one
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

// New returns a Telemetry. It fails if the meter provider refuses an instrument.
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

		callDuration:    m.Histogram("dispensary.client.call.duration", "Duration of calls of the platform, with retries and all waits.", signal.Requests),
		requestDuration: m.Histogram("http.client.request.duration", "Duration of HTTP client requests.", signal.Requests),
		retries:         m.Counter("dispensary.client.retries", "Requests that were sent again.", "{request}"),
		limiterWait:     m.Histogram("dispensary.client.limiter.wait", "Waits for the client's own rate limiter, and until the platform's Retry-After is over.", signal.Waits),
		invalidFields:   m.Counter("dispensary.client.invalid_fields", "Fields of responses that could not be decoded.", "{field}"),

		refreshDuration: m.Histogram("dispensary.oauth.refresh.duration", "Duration of token refreshes, with the store and the wait for other replicas.", signal.Requests),
		tokenEvents:     m.Counter("dispensary.oauth.events", "What happened to users' connections and to the application.", "{event}"),

		webhookDuration: m.Histogram("dispensary.webhook.request.duration", "Duration of webhook requests, until they were answered.", signal.Requests),
		acceptDuration:  m.Histogram("messaging.client.operation.duration", "Duration of storing an event in the inbox.", signal.Requests),
		processDuration: m.Histogram("messaging.process.duration", "Duration of attempts to handle an event.", signal.Requests),
		inboxWait:       m.Histogram("dispensary.inbox.wait", "Time from an event's arrival to its first attempt: how far the inbox is behind.", signal.Waits),
		deadLetters:     m.Counter("dispensary.inbox.dead_letters", "Events that were given up.", "{event}"),

		reconcileDuration: m.Histogram("dispensary.reconcile.run.duration", "Duration of searches for missed webhooks of one clinic.", signal.Waits),
		reconcileEvents:   m.Counter("dispensary.reconcile.events", "Events whose webhooks never came.", "{event}"),

		inboxEvents: m.Gauge("dispensary.inbox.events", "Events that an inbox holds.", "{event}"),
		inboxAge:    m.Gauge("dispensary.inbox.age", "How long the oldest event has waited that is not handled yet.", "s"),
	}
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("dispensaryotel: %w", err)
	}
	return t, nil
}

// spanKey is where a context has a span of ours, for its end. The span that
// OpenTelemetry finds there may be another observer's.
type spanKey struct {
	of   *Telemetry
	what spanOf
}

// spanOf says what a span is of.
type spanOf int

const (
	ofCall spanOf = iota
	ofAttempt
	ofRefresh
	ofRequest
	ofProcessing
)

// begin starts a span that begunIn finds in the returned context. A span that is not recorded is
// left out, unless begunIn would find another one in its place.
func (t *Telemetry) begin(ctx context.Context, what spanOf, name string, kind trace.SpanKind, cause trace.SpanContext, attributes ...signal.Attribute) (context.Context, signal.Span) {
	ctx, span := t.tracer.Start(ctx, name, kind, cause, attributes...)
	if !span.Recording() && !t.begunIn(ctx, what).Recording() {
		return ctx, span
	}
	return context.WithValue(ctx, spanKey{t, what}, span), span
}

// begunIn returns the span that has begun in ctx; the zero span if none did.
func (t *Telemetry) begunIn(ctx context.Context, what spanOf) signal.Span {
	span, _ := ctx.Value(spanKey{t, what}).(signal.Span)
	return span
}
