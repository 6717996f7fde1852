package inboxkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/priority"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/webhook"
)

// Worker is the part of an [engine.Engine] that is the same for all: it runs the handler
// for one event and decides what follows. It is safe for concurrent use.
type Worker struct {
	work    webhook.Work
	overdue atomic.Int64 // handlers
}

// ErrNotStarted is the error of a handler that waited for the program to start until the end
// of its time. The attempt does not count, and the event is due at once. A handler must not
// return it without waiting, because its worker would call it again at once.
var ErrNotStarted = errors.New("engine: program has not started")

// overdueMargin is the time that a handler has to stop once its context has ended, before it
// is reported as overdue.
const overdueMargin = 5 * time.Second

// Overdue returns the number of handlers that run although their time ended 5 seconds ago or
// earlier. Each of them keeps a worker.
func (w *Worker) Overdue() int { return int(w.overdue.Load()) }

// NewWorker returns a worker. An error is an [*api.ArgumentError] that says what is
// wrong with w.
func NewWorker(w webhook.Work) (*Worker, error) {
	w, err := w.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{work: w}, nil
}

// Work returns the configuration of the worker: see [webhook.Work.WithDefaults].
func (w *Worker) Work() webhook.Work { return w.work }

// Format prints the type only.
func (w *Worker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "inboxkit.Worker") }

// OrderingKeys returns what an engine stores with an accepted event, while it still
// has the body in clear: the key of the events that are handled one at a time with
// it, and the key that the stale guard knows its object by. Either may be empty.
func (w *Worker) OrderingKeys(d webhook.Delivery) (order, object webhook.OrderingKey) {
	if w.work.Order == nil {
		return "", ""
	}
	event, err := d.Event()
	if err != nil {
		return "", "" // nothing but the body is known of it
	}
	order = w.work.Order(d, event)
	if w.work.Stale != webhook.StalePolicyIgnore && !d.CreatedAt.IsZero() {
		object = webhook.ByObject(d, event)
	}
	return order, object
}

// Task is one attempt that a [Worker] is asked to make.
type Task struct {
	webhook.Delivery

	// Attempt counts from 1.
	Attempt int

	// Object is what [Worker.OrderingKeys] returned for it, and Newest the time of
	// the newest event of this object that was handled; both may be zero.
	Object webhook.OrderingKey
	Newest time.Time

	// Err is set by an engine that cannot give the event to a handler: its body
	// cannot be opened, see [OpenBody], or all its workers died, see
	// [webhook.ErrAbandoned]. It is the attempt's error then.
	Err error
}

// stale reports that a newer event of the object was handled. What was handled at
// the time at which the object was created is newer than that.
func (t Task) stale() bool {
	return t.Object != "" && (t.CreatedAt.Before(t.Newest) || t.CreatesObject() && t.CreatedAt.Equal(t.Newest))
}

// Do makes one attempt: it calls the handler, with its time-out, on a goroutine of
// its own, so that not even a runtime.Goexit harms the engine; gives the outcome to
// record; and then, and not before, logs and reports it. It returns the error of
// record.
//
// When ctx ends, so does the handler's context; what fails by that is
// [webhook.ResultReturned]. Do waits for the handler in any case, and record is
// called exactly once, even if ctx has ended: it must not depend on ctx.
func (w *Worker) Do(ctx context.Context, t Task, record func(webhook.Attempt) error) error {
	a := webhook.Attempt{Delivery: t.Delivery, Number: t.Attempt, Object: t.Object, Err: t.Err}
	a.Stale = w.work.Stale != webhook.StalePolicyIgnore && t.stale()
	ctx = w.work.Observer.AttemptStart(ctx, a)
	w.attempt(ctx, &a)
	err := record(a)
	if err != nil {
		a.Result, a.RetryIn, a.Err = webhook.ResultLost, 0, err
	}
	if level := levelOf(a); w.work.Logger.Enabled(ctx, level) {
		w.work.Logger.LogAttrs(ctx, level, "webhook event "+string(a.Result), attrsOf(a)...)
	}
	w.work.Observer.AttemptEnd(ctx, a)
	return err
}

// attempt runs the handler unless there is no need to, and decides what follows.
func (w *Worker) attempt(ctx context.Context, a *webhook.Attempt) {
	if a.Stale && w.work.Stale == webhook.StalePolicySkip {
		a.Result, a.Err = webhook.ResultSkipped, nil
		return
	}
	start := time.Now()
	if a.Err == nil {
		a.Err = w.handle(ctx, a)
	}
	a.Duration = time.Since(start)
	w.decide(ctx, a)
}

// handle runs the handler and waits for its end.
func (w *Worker) handle(ctx context.Context, a *webhook.Attempt) error {
	event, err := a.Event()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.work.HandlerTimeout)
	defer cancel()
	ctx = priority.WithDefault(ctx, api.PriorityEvent)
	ctx = webhook.Handling{Key: a.Key, Attempt: a.Number, Stale: a.Stale}.Context(ctx)
	returned := w.watch(ctx, *a)
	err = safecall.Isolated(func() error { return w.work.Handle(ctx, event) })
	returned()
	if err != nil && committed(ctx) {
		// The event counts as handled, and would be reported as one that failed.
		w.work.Logger.LogAttrs(ctx, slog.LevelError, "webhook handler failed after its transaction",
			slog.String("event_id", event.ID), slog.String("reason", webhook.Attempt{Err: err}.Reason()))
		return nil
	}
	return err
}

// watch reports the attempt if its handler becomes overdue before returned is called.
func (w *Worker) watch(ctx context.Context, a webhook.Attempt) (returned func()) {
	const running, overdue, ended = 0, 1, 2
	var state atomic.Int32
	a.Duration = w.work.HandlerTimeout + overdueMargin
	timer := time.AfterFunc(a.Duration, func() {
		w.overdue.Add(1)
		if !state.CompareAndSwap(running, overdue) { // it has just returned
			w.overdue.Add(-1)
			return
		}
		w.work.Logger.LogAttrs(ctx, slog.LevelWarn, "webhook handler ignores the end of its time", attrsOf(a)[1:]...)
		w.work.Observer.AttemptOverdue(ctx, a)
	})
	return func() {
		if !timer.Stop() && state.Swap(ended) == overdue {
			w.overdue.Add(-1)
		}
	}
}

// decide says what follows from an attempt that was made.
func (w *Worker) decide(ctx context.Context, a *webhook.Attempt) {
	switch {
	case a.Err == nil:
		a.Result = webhook.ResultHandled
	case webhook.IsPermanent(a.Err):
		a.Result = webhook.ResultDead
	case ctx.Err() != nil, errors.Is(a.Err, ErrNotStarted):
		a.Result = webhook.ResultReturned
	case a.Number >= w.work.Retry.MaxAttempts:
		a.Result = webhook.ResultDead
	default:
		a.Result, a.RetryIn = webhook.ResultFailed, w.work.Retry.Wait(a.Number)
	}
}

func levelOf(a webhook.Attempt) slog.Level {
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped, webhook.ResultReturned:
		return slog.LevelInfo
	case webhook.ResultFailed:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func attrsOf(a webhook.Attempt) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("outcome", string(a.Result)),
		slog.String("environment", a.Key.Environment.String()),
		slog.String("event_id", a.Key.EventID),
		slog.String("event_type", string(a.Type)),
		slog.String("integration_id", a.Key.IntegrationID),
		slog.Int("attempt", a.Number),
		slog.Duration("duration", a.Duration),
	}
	if a.Stale {
		attrs = append(attrs, slog.Bool("stale", true))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("reason", a.Reason()))
	}
	if id := a.RequestID(); id != "" {
		attrs = append(attrs, slog.String("request_id", id))
	}
	if a.RetryIn > 0 {
		attrs = append(attrs, slog.Duration("retry_in", a.RetryIn))
	}
	if p := webhook.PanicError(nil); errors.As(a.Err, &p) {
		attrs = append(attrs, slog.String("stack", p.Stack()))
	}
	return attrs
}
