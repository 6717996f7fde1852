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

// Shape is how spans of one sort begin: made once, and used for all of them.
type Shape struct {
	name    string
	options []trace.SpanStartOption
}

// NewShape returns a shape. Its attributes are there for a sampler to see; more can
// be set as long as a span lasts.
func NewShape(name string, kind trace.SpanKind, attributes ...Attribute) *Shape {
	options := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(pairs(attributes)...)}
	return &Shape{name, options[:len(options):len(options)]}
}

// Start begins a span below that of ctx.
func (t Tracer) Start(ctx context.Context, s *Shape) (context.Context, Span) {
	ctx, span := t.tracer.Start(ctx, s.name, s.options...)
	return ctx, Span{span}
}

// StartLinked begins a span with a link to what brought it about; without one if
// that is not valid.
func (t Tracer) StartLinked(ctx context.Context, s *Shape, to trace.SpanContext) (context.Context, Span) {
	if !to.IsValid() {
		return t.Start(ctx, s)
	}
	ctx, span := t.tracer.Start(ctx, s.name, append(s.options, trace.WithLinks(trace.Link{SpanContext: to}))...)
	return ctx, Span{span}
}

// Span is a span under way. Nothing of an error's text gets onto it. The zero Span
// records nothing.
type Span struct{ span trace.Span }

// Recording reports that the span is exported.
func (s Span) Recording() bool { return s.span != nil && s.span.IsRecording() }

// Context returns what a link to the span needs.
func (s Span) Context() trace.SpanContext { return s.span.SpanContext() }

// Set adds attributes.
func (s Span) Set(attributes ...Attribute) {
	if s.Recording() {
		s.span.SetAttributes(pairs(attributes)...)
	}
}

// Fail marks the span as an error, with why in a word.
func (s Span) Fail(why string) {
	if s.Recording() {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(Error.Of(why).pair)
	}
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}
