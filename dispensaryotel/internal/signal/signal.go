// Package signal creates the spans and metrics of its parent package, with allowed attributes
// only. An [Attribute] can only be created from a key in this file, and the rest of the module
// never passes attributes to OpenTelemetry directly.
package signal

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// Attributes of requests to the platform. They contain no URL, query, request body or response
// body. The conventions require url.full, but it would identify patients.
var (
	Operation     = Key[string]{"dispensary.operation"}             // "patients.create"
	Outcome       = Key[string]{"dispensary.outcome"}               // of a failed write: "maybe_applied"
	Attempts      = Key[int]{"dispensary.attempts"}                 // of a call
	RequestID     = Key[string]{"dispensary.request_id"}            // the platform's X-Request-Id
	RetryReason   = Key[string]{"dispensary.retry.reason"}          // "rate_limited"
	BackOff       = Key[time.Duration]{"dispensary.retry.back_off"} // before a retry
	LimiterWait   = Key[time.Duration]{"dispensary.limiter.wait"}   // before an attempt
	Region        = Key[string]{"dispensary.region"}                // "us"
	Stage         = Key[string]{"dispensary.stage"}                 // "sandbox"
	Method        = Key[string]{semconv.HTTPRequestMethodKey}       // "GET"
	Route         = Key[string]{semconv.URLTemplateKey}             // "/clinic/patients/{id}"
	Status        = Key[int]{semconv.HTTPResponseStatusCodeKey}     // 200
	Resend        = Key[int]{semconv.HTTPRequestResendCountKey}     // 1 for the first retry
	ServerAddress = Key[string]{semconv.ServerAddressKey}           // the platform's host
	ServerPort    = Key[int]{semconv.ServerPortKey}
	Error         = Key[string]{semconv.ErrorTypeKey} // a one-word cause of the failure, or the status
)

// Attributes of token events. They do not identify the user.
var (
	RefreshOutcome    = Key[string]{"dispensary.oauth.refresh.outcome"}  // "done"
	Background        = Key[bool]{"dispensary.oauth.refresh.background"} // by a Refresher
	TokenEvent        = Key[string]{"dispensary.oauth.event"}            // "must_reauthorize"
	ReauthorizeReason = Key[string]{"dispensary.oauth.reason"}           // "invalid_grant"
)

// Attributes of events as they arrive and pass through the inbox.
var (
	WebhookOutcome = Key[string]{"dispensary.webhook.outcome"} // "accepted"
	Tenant         = Key[string]{"dispensary.webhook.tenant"}  // your name for the tenant
	EventType      = Key[string]{"dispensary.event.type"}      // "order.placed", or "_OTHER"
	Result         = Key[string]{"dispensary.attempt.result"}  // "handled"
	Attempt        = Key[int]{"dispensary.attempt.number"}     // counted from 1
	Stale          = Key[bool]{"dispensary.attempt.stale"}     // a newer event was handled first
	RetryIn        = Key[time.Duration]{"dispensary.attempt.retry_in"}
	InboxName      = Key[string]{"dispensary.inbox.name"}       // your name for the inbox
	InboxState     = Key[string]{"dispensary.inbox.state"}      // "waiting"
	MessageID      = Key[string]{semconv.MessagingMessageIDKey} // the event's ID
	System         = Key[string]{semconv.MessagingSystemKey}
	Destination    = Key[string]{semconv.MessagingDestinationNameKey}
	OperationName  = Key[string]{semconv.MessagingOperationNameKey}
	OperationType  = Key[string]{semconv.MessagingOperationTypeKey}
)

// Attributes of the search for missed webhooks. They do not identify the clinic.
var (
	ReconcileResult = Key[string]{"dispensary.reconcile.result"} // of missed events: "recovered"
)

// Attribute is an allowed key with a value.
type Attribute struct{ pair attribute.KeyValue }

// Key is an allowed key for values of one type. Durations are in seconds.
type Key[T string | int | bool | time.Duration] struct{ key attribute.Key }

// maxText is the longest text from outside, such as a request ID, in bytes.
const maxText = 128

// Of returns the attribute with a value. It cuts a text after 128 bytes.
func (k Key[T]) Of(value T) Attribute {
	switch value := any(value).(type) {
	case string:
		return Attribute{k.key.String(strings.ToValidUTF8(value[:min(len(value), maxText)], "�"))}
	case int:
		return Attribute{k.key.Int(value)}
	case bool:
		return Attribute{k.key.Bool(value)}
	case time.Duration:
		return Attribute{k.key.Float64(value.Seconds())}
	}
	panic("unreachable")
}

// pairs returns attributes in OpenTelemetry's form.
func pairs(attributes []Attribute) []attribute.KeyValue {
	all := make([]attribute.KeyValue, len(attributes))
	for i, a := range attributes {
		all[i] = a.pair
	}
	return all
}

// Tracer starts spans.
type Tracer struct{ tracer trace.Tracer }

// NewTracer returns a tracer of the given scope.
func NewTracer(provider trace.TracerProvider, scope, version string) Tracer {
	return Tracer{provider.Tracer(scope, trace.WithInstrumentationVersion(version))}
}

// Start starts a span below the span of ctx. If cause is valid, it links the span to its
// cause. Samplers see the given attributes. The caller can set more until the span ends.
func (t Tracer) Start(ctx context.Context, name string, kind trace.SpanKind, cause trace.SpanContext, attributes ...Attribute) (context.Context, Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(pairs(attributes)...)}
	if cause.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: cause}))
	}
	ctx, span := t.tracer.Start(ctx, name, options...)
	return ctx, Span{span}
}

// Span is a started span. It never contains the text of an error. The zero Span records
// nothing.
type Span struct{ span trace.Span }

// Recording reports whether the span is exported.
func (s Span) Recording() bool { return s.span != nil && s.span.IsRecording() }

// Context returns the context for a link to the span.
func (s Span) Context() trace.SpanContext { return s.span.SpanContext() }

// Set adds attributes.
func (s Span) Set(attributes ...Attribute) {
	if s.Recording() {
		s.span.SetAttributes(pairs(attributes)...)
	}
}

// Fail marks the span as an error, with a one-word cause.
func (s Span) Fail(why string) {
	if s.Recording() {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(Error.Of(why).pair)
	}
}

// End ends the span and records its duration.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// Meter creates instruments and stores their errors.
type Meter struct {
	meter metric.Meter
	err   error
}

// NewMeter returns a meter of the given scope.
func NewMeter(provider metric.MeterProvider, scope, version string) *Meter {
	return &Meter{meter: provider.Meter(scope, metric.WithInstrumentationVersion(version))}
}

// Err returns the errors of all instruments, joined.
func (m *Meter) Err() error { return m.err }

// Bucket bounds of histograms, in seconds.
var (
	// Requests are the bounds that the conventions recommend for HTTP.
	Requests = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

	// Waits range from milliseconds to half a day.
	Waits = []float64{0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200}
)

// set returns attributes as the set of a measurement.
func set(attributes []Attribute) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(pairs(attributes)...))
}

// Histogram is a histogram of durations.
type Histogram struct{ histogram metric.Float64Histogram }

// Histogram creates a histogram of durations in seconds.
func (m *Meter) Histogram(name, description string, bounds []float64) Histogram {
	h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description),
		metric.WithExplicitBucketBoundaries(bounds...))
	m.err = errors.Join(m.err, err)
	return Histogram{h}
}

// Record adds a duration to the histogram.
func (h Histogram) Record(ctx context.Context, d time.Duration, attributes ...Attribute) {
	if h.histogram.Enabled(ctx) {
		h.histogram.Record(ctx, d.Seconds(), set(attributes))
	}
}

// Counter is a counter that only grows.
type Counter struct{ counter metric.Int64Counter }

// Counter creates a counter of a unit, for example "{event}".
func (m *Meter) Counter(name, description, unit string) Counter {
	c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return Counter{c}
}

// Count adds 1.
func (c Counter) Count(ctx context.Context, attributes ...Attribute) { c.Add(ctx, 1, attributes...) }

// Add adds n.
func (c Counter) Add(ctx context.Context, n int, attributes ...Attribute) {
	if c.counter.Enabled(ctx) {
		c.counter.Add(ctx, int64(n), set(attributes))
	}
}

// Gauge is a number that is read for each collection of metrics.
type Gauge struct{ gauge metric.Float64ObservableGauge }

// Gauge creates a gauge of a unit, for example "{event}".
func (m *Meter) Gauge(name, description, unit string) Gauge {
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.err = errors.Join(m.err, err)
	return Gauge{g}
}

// Display receives the numbers of gauges.
type Display struct{ observer metric.Observer }

// Show sets the number of a gauge.
func (d Display) Show(g Gauge, value float64, attributes ...Attribute) {
	d.observer.ObserveFloat64(g.gauge, value, set(attributes))
}

// Watch calls read for each collection of metrics, until stop is called.
func (m *Meter) Watch(read func(context.Context, Display) error, gauges ...Gauge) (stop func() error, err error) {
	observed := make([]metric.Observable, len(gauges))
	for i, g := range gauges {
		observed[i] = g.gauge
	}
	registration, err := m.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		return read(ctx, Display{o})
	}, observed...)
	if err != nil {
		return nil, err
	}
	return registration.Unregister, nil
}
