package dispensaryotel

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensaryotel/internal/signal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
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

// Reconcile returns c with observation added. The observer of c is called first.
//
// It records the duration of each run, and counts the events whose webhooks never arrived:
// recovered events, and lost events, which the platform no longer has. It does not record
// skipped runs. It does not count the events of a first run, because they may be older than
// the webhooks. The calls of a run have their own spans.
func (t *Telemetry) Reconcile(c reconcile.Config) reconcile.Config {
	own, of := c.Observer.RunEnd, c.Environment
	c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
		defer t.reconciled(ctx, of, report, err)
		if own != nil {
			own(ctx, report, err)
		}
	}
	return c
}

// reconciled records a run.
func (t *Telemetry) reconciled(ctx context.Context, of api.Environment, report reconcile.Report, err error) {
	if report.Skipped {
		return
	}
	t.reconcileDuration.Record(ctx, report.Duration, append(environment(of), failed(reason(err))...)...)
	if report.First {
		return
	}
	lost := 0
	for _, gap := range report.Gaps {
		if gap.Err == nil { // otherwise a later run retries it
			lost++
		}
	}
	for result, n := range map[string]int{"recovered": len(report.Recovered), "lost": lost} {
		if n > 0 {
			t.reconcileEvents.Add(ctx, n, append(environment(of), signal.ReconcileResult.Of(result))...)
		}
	}
}
