package dispensaryotel

import (
	"context"
	"time"

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
// that was in this process and one of the last 8,192. In any case both have the
// event's id, in messaging.message.id.
func (t *Telemetry) Work(w webhook.Work) webhook.Work {
	w.Observer.AttemptStart = within(w.Observer.AttemptStart, t.processing)
	w.Observer.AttemptEnd = both(w.Observer.AttemptEnd, t.processed)
	return w
}

// processing begins the span of an attempt.
func (t *Telemetry) processing(ctx context.Context, a webhook.Attempt) context.Context {
	key := newEventKey(a.Delivery, "process")
	if a.Number == 1 && !a.ReceivedAt.IsZero() && t.inboxWait.Enabled(ctx) {
		t.inboxWait.Record(ctx, max(time.Since(a.ReceivedAt), 0), t.eventSeries.Get(key, newEventSeries))
	}
	ctx, span := t.tracer.StartLinked(ctx, t.eventShapes.Get(key, newEventShape), t.accepted.of(a.Key))
	if span.Recording() {
		span.Set(signal.MessageID.Of(a.Key.EventID), signal.Attempt.Of(a.Number))
	}
	return t.begun(ctx, ofProcessing, span)
}

// processed ends it, once the outcome has been noted.
func (t *Telemetry) processed(ctx context.Context, a webhook.Attempt) {
	span := t.begunIn(ctx, ofProcessing)
	defer span.End()
	key := newEventKey(a.Delivery, "process")
	key.outcome, key.why = string(a.Result), reason(a.Err)
	if t.processDuration.Enabled(ctx) {
		t.processDuration.Record(ctx, a.Duration, t.eventSeries.Get(key, newEventSeries))
	}
	if a.Result == webhook.ResultDead && t.deadLetters.Enabled(ctx) {
		t.deadLetters.Count(ctx, t.eventSeries.Get(key, newEventSeries))
	}
	if !span.Recording() {
		return
	}
	span.Set(signal.Result.Of(key.outcome))
	if a.Stale {
		span.Set(signal.Stale.Of(true))
	}
	if a.RetryIn > 0 {
		span.Set(signal.RetryIn.Of(a.RetryIn))
	}
	switch a.Result {
	case webhook.ResultFailed, webhook.ResultDead, webhook.ResultLost:
		span.Fail(key.why)
	}
}
