package dispensaryotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/otel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Work returns w with observation added; what w observes with is called first. It
// serves every engine:
//
//	sqlinbox.Config{Work: telemetry.Work(webhook.Work{Handle: router.Dispatch}), …}
//
// An attempt to handle an event is a span "process order.placed", of kind
// consumer; what the handler does, calls of the platform included, is below it. It
// is its own trace, linked to the span in which the event was accepted if
// that was in this process and one of the last 4,096. In any case both have the
// event's id, in messaging.message.id.
func (t *Telemetry) Work(w webhook.Work) webhook.Work {
	w.Observer.AttemptStart = within(w.Observer.AttemptStart, t.processing)
	w.Observer.AttemptEnd = both(w.Observer.AttemptEnd, t.processed)
	return w
}

// processing begins the span of an attempt.
func (t *Telemetry) processing(ctx context.Context, a webhook.Attempt) context.Context {
	attributes := event(a.Delivery, "process", "process")
	if a.Number == 1 && !a.ReceivedAt.IsZero() {
		t.inboxWait.Record(ctx, max(time.Since(a.ReceivedAt), 0), attributes...)
	}
	ctx, span := t.begin(ctx, ofProcessing, "process "+typeOf(a.Type), trace.SpanKindConsumer, t.accepted.of(a.Key), attributes...)
	span.Set(signal.MessageID.Of(a.Key.EventID), signal.Attempt.Of(a.Number))
	return ctx
}

// processed ends it, once the outcome has been noted.
func (t *Telemetry) processed(ctx context.Context, a webhook.Attempt) {
	span := t.begunIn(ctx, ofProcessing)
	defer span.End()
	result, why := signal.Result.Of(string(a.Result)), reason(a.Err)
	attributes := append(append(event(a.Delivery, "process", "process"), result), failed(why)...)
	t.processDuration.Record(ctx, a.Duration, attributes...)
	if a.Result == webhook.ResultDead {
		t.deadLetters.Count(ctx, attributes...)
	}
	span.Set(result)
	if a.Stale {
		span.Set(signal.Stale.Of(true))
	}
	if a.RetryIn > 0 {
		span.Set(signal.RetryIn.Of(a.RetryIn))
	}
	switch a.Result {
	case webhook.ResultFailed, webhook.ResultDead, webhook.ResultLost:
		span.Fail(why)
	}
}
