package signal

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

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
