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
