package dispensaryotel

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Webhook returns c with observation added. The observer of c is called first.
//
// A request is a span "receive webhook". Its kind is server, unless middleware in front of the
// handler has already started a span for the request. Storing its event in c.Inbox is a span
// "accept" of kind producer below it. For a tenant with its own inbox, use
// telemetry.Webhook(webhook.HandlerConfig{Inbox: inbox}).Inbox instead of the inbox.
//
// The process remembers at least the last 4,096 spans of accepted events, to link the attempts
// to handle these events: see [Telemetry.Work].
func (t *Telemetry) Webhook(c webhook.HandlerConfig) webhook.HandlerConfig {
	if c.Inbox != nil {
		c.Inbox = &observedInbox{t, c.Inbox}
	}
	c.Observer.RequestStart = within(c.Observer.RequestStart, t.receiving)
	c.Observer.RequestEnd = both(c.Observer.RequestEnd, t.received)
	return c
}

// receiving starts the span of a request.
func (t *Telemetry) receiving(ctx context.Context, _ *http.Request) context.Context {
	kind := trace.SpanKindServer
	if parent := trace.SpanContextFromContext(ctx); parent.IsValid() && !parent.IsRemote() {
		kind = trace.SpanKindInternal
	}
	ctx, _ = t.begin(ctx, ofRequest, "receive webhook", kind, trace.SpanContext{})
	return ctx
}

// received ends the span of a request. A rejected request is not an error: the handler worked
// correctly.
func (t *Telemetry) received(ctx context.Context, o webhook.Observation) {
	span := t.begunIn(ctx, ofRequest)
	defer span.End()
	attributes := webhookRequest(o)
	t.webhookDuration.Record(ctx, o.Duration, attributes...)
	if !span.Recording() {
		return
	}
	span.Set(attributes...)
	if o.Key.EventID != "" {
		span.Set(signal.MessageID.Of(o.Key.EventID))
	}
	if o.Tenant != "" {
		span.Set(signal.Tenant.Of(o.Tenant))
	}
	if o.Outcome == webhook.OutcomeUnavailable {
		span.Fail(reason(o.Err))
	}
}

// observedInbox is the inbox of a handler.
type observedInbox struct {
	telemetry *Telemetry
	inbox     webhook.Inbox
}

// Accept implements [webhook.Inbox].
func (i *observedInbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	t, attributes := i.telemetry, event(d, "accept", "send")
	ctx, span := t.tracer.Start(ctx, "accept "+typeOf(d.Type), trace.SpanKindProducer, trace.SpanContext{}, attributes...)
	defer span.End()
	if span.Recording() {
		span.Set(signal.MessageID.Of(d.Key.EventID))
		t.accepted.remember(d.Key, span.Context()) // before Accept: a worker may handle the event before Accept returns
	}
	began := time.Now()
	receipt, err := i.inbox.Accept(ctx, d)
	if err != nil {
		span.Fail(reason(err))
		t.accepted.forget(d.Key, span.Context())
		attributes = append(attributes, signal.Error.Of(reason(err)))
	} else {
		outcome := signal.WebhookOutcome.Of(outcomeOf(receipt))
		span.Set(outcome)
		attributes = append(attributes, outcome)
	}
	t.acceptDuration.Record(ctx, time.Since(began), attributes...)
	return receipt, err
}

// outcomeOf returns the outcome of a receipt, in the values of a [webhook.Observation].
func outcomeOf(r webhook.Receipt) string {
	if r.Duplicate {
		return string(webhook.OutcomeDuplicate)
	}
	return string(webhook.OutcomeAccepted)
}

// both calls first, which may be nil, and then second, even if first panics.
func both[T any](first, second func(context.Context, T)) func(context.Context, T) {
	if first == nil {
		return second
	}
	return func(ctx context.Context, value T) {
		defer second(ctx, value)
		first(ctx, value)
	}
}

// within calls begin with the context that the program's own observer returns. own may be nil.
func within[T any](own, begin func(context.Context, T) context.Context) func(context.Context, T) context.Context {
	return func(ctx context.Context, value T) context.Context {
		if own != nil {
			if made := own(ctx, value); made != nil {
				ctx = made
			}
		}
		return begin(ctx, value)
	}
}
