package dispensaryotel

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Work returns w with observation added, for any engine. The observer of w is called first.
//
//	sqlinbox.Config{Work: telemetry.Work(webhook.Work{Handle: router.Dispatch}), …}
//
// An attempt to handle an event is a span of kind consumer, such as "process order.placed".
// The handler's spans, including calls of the platform, are below it. The attempt starts its
// own trace. It links to the span in which the event was accepted, if that was in this process
// and at most 4,096 events ago. Both spans always have the event's ID in messaging.message.id.
func (t *Telemetry) Work(w webhook.Work) webhook.Work {
	w.Observer.AttemptStart = within(w.Observer.AttemptStart, t.processing)
	w.Observer.AttemptEnd = both(w.Observer.AttemptEnd, t.processed)
	return w
}

// processing starts the span of an attempt.
func (t *Telemetry) processing(ctx context.Context, a webhook.Attempt) context.Context {
	attributes := event(a.Delivery, "process", "process")
	if a.Number == 1 && !a.ReceivedAt.IsZero() {
		t.inboxWait.Record(ctx, max(time.Since(a.ReceivedAt), 0), attributes...)
	}
	ctx, span := t.begin(ctx, ofProcessing, "process "+typeOf(a.Type), trace.SpanKindConsumer, t.accepted.of(a.Key), attributes...)
	span.Set(signal.MessageID.Of(a.Key.EventID), signal.Attempt.Of(a.Number))
	return ctx
}

// processed ends the span, after the engine has stored the outcome.
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

// WatchInbox reports the numbers of an engine for each collection of metrics. Call stop before
// you close the engine. The name distinguishes the inbox from others in the program.
//
// All processes that share an inbox report the same numbers, so take the maximum, not the sum.
// Alert on dispensary.inbox.age. If the engine does not respond, no number is reported, and
// OpenTelemetry's error handler receives the error.
func (t *Telemetry) WatchInbox(name string, inbox engine.Engine) (stop func() error, err error) {
	inboxName := signal.InboxName.Of(name)
	stop, err = t.meter.Watch(func(ctx context.Context, d signal.Display) error {
		stats, err := inbox.Stats(ctx)
		if err != nil {
			return fmt.Errorf("dispensaryotel: inbox %q: %w", name, err)
		}
		for state, n := range map[string]int{"waiting": stats.Waiting, "running": stats.Running, "dead": stats.Dead} {
			d.Show(t.inboxEvents, float64(n), inboxName, signal.InboxState.Of(state))
		}
		age := time.Duration(0)
		if !stats.Oldest.IsZero() {
			age = max(time.Since(stats.Oldest), 0)
		}
		d.Show(t.inboxAge, age.Seconds(), inboxName)
		return nil
	}, t.inboxEvents, t.inboxAge)
	if err != nil {
		return nil, fmt.Errorf("dispensaryotel: %w", err)
	}
	return stop, nil
}

// maxLinks is the smallest number of accepted events whose spans are remembered. Up to twice
// as many are stored, in about 2 MB.
const maxLinks = 4096

// links stores the spans of accepted events, to link later attempts to them. It drops the
// older half at once.
type links struct {
	mu           sync.Mutex
	young, older map[webhook.Key]trace.SpanContext // disjoint, up to maxLinks each
}

// remember stores the span of an event, but never replaces it with the span of a repeated
// delivery.
func (l *links) remember(key webhook.Key, span trace.SpanContext) {
	if l.of(key).IsValid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.young == nil || len(l.young) == maxLinks {
		l.young, l.older = map[webhook.Key]trace.SpanContext{}, l.young
	}
	l.young[key] = span
}

// forget drops the span of an event that was not accepted.
func (l *links) forget(key webhook.Key, span trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, known := range []map[webhook.Key]trace.SpanContext{l.young, l.older} {
		if known[key].Equal(span) {
			delete(known, key)
		}
	}
}

// of returns the span of an event, or an invalid span if the event is unknown.
func (l *links) of(key webhook.Key) trace.SpanContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	if span, known := l.young[key]; known {
		return span
	}
	return l.older[key]
}
