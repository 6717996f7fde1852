// Package inboxkit implements the parts that all inboxes of this module share. An inbox adds
// only the code for its storage:
//
//	Accept ─► Worker.OrderingKeys, SealBody ─► Batcher ─► stored
//	claimed ─► OpenBody ─► Worker.Do ─► Lifecycle.Record ─► the outcome is stored
//
// Each inbox accepts events in its own way. To handle a due event, it claims the event,
// decrypts its body with [OpenBody], and calls [Worker.Do] with a function that records the
// outcome. Attempt.Result is the outcome to record.
//
// [ResealPages] implements Reseal for an inbox that encrypts. [InBatches] implements Replay,
// Discard and HandleNow. [Missing] implements Missing of a reconcile.Inbox.
package inboxkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Worker is the shared part of all implementations of [engine.Engine]: it runs the handler for
// one event and decides the outcome. It is safe for concurrent use.
type Worker struct {
	work    webhook.Work
	overdue atomic.Int64 // handlers
}

// CallerRetries is the [webhook.RetryPolicy].MaxAttempts of a caller that decides itself whether and
// when to retry. Every attempt can be repeated, and its RetryIn is 0.
const CallerRetries = math.MaxInt32

// overdueMargin is the time between the end of a handler's context and the report of an
// overdue handler.
const overdueMargin = 5 * time.Second

// Overdue returns the number of handlers still running 5 seconds or more after their timeout.
// Each of them occupies a worker.
func (w *Worker) Overdue() int { return int(w.overdue.Load()) }

// NewWorker creates a worker. If w is invalid, the error is an [*api.ArgumentError].
func NewWorker(w webhook.Work) (*Worker, error) {
	w, err := w.WithDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{work: w}, nil
}

// Work returns the configuration with its defaults, as from [webhook.Work.WithDefaults].
func (w *Worker) Work() webhook.Work { return w.work }

// WaitForStart waits until the engine may handle events. It returns false if stop is closed before.
func (w *Worker) WaitForStart(stop <-chan struct{}) bool {
	select {
	case <-w.work.Start:
		return true
	case <-stop:
		return false
	}
}

// Format prints the type only.
func (w *Worker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "inboxkit.Worker") }

// OrderingKeys returns the two keys that an engine stores with an accepted event, computed
// from the body before it is encrypted. Events with the same order key are handled one at a
// time. The stale guard identifies an object by its object key. Either may be empty.
func (w *Worker) OrderingKeys(d webhook.Delivery) (order, object webhook.OrderingKey) {
	if w.work.Order == nil {
		return "", ""
	}
	event, err := d.Event()
	if err != nil {
		return "", "" // the body is not an event
	}
	order = w.work.Order(d, event)
	if w.work.Stale != webhook.StalePolicyIgnore && !d.CreatedAt.IsZero() {
		object = webhook.ByObject(d, event)
	}
	return order, object
}

// Task is one attempt for a [Worker].
type Task struct {
	webhook.Delivery

	// Attempt is the number of the attempt, starting at 1.
	Attempt int

	// Object is the object key from [Worker.OrderingKeys]. Newest is the time of the newest
	// handled event of this object. Both may be zero.
	Object webhook.OrderingKey
	Newest time.Time

	// Err is the result of the attempt if the engine cannot pass the event to a handler: its
	// body cannot be decrypted (see [OpenBody]), or all its workers died (see
	// [webhook.ErrAbandoned]). Nil otherwise.
	Err error
}

// stale reports whether a newer event of the object was handled. At equal times, any handled
// event counts as newer than the event that created the object.
func (t Task) stale() bool {
	return t.Object != "" && (t.CreatedAt.Before(t.Newest) || t.CreatesObject() && t.CreatedAt.Equal(t.Newest))
}

// Do makes one attempt. It calls the handler with its timeout on a separate goroutine, so that
// not even runtime.Goexit harms the engine. Then it passes the outcome to record, and afterwards
// logs and reports it. It returns the error of record.
//
// When ctx ends, the handler's context ends too. A handler that fails because of it has the
// result [webhook.ResultReturned]. Do always waits for the handler. It calls record exactly
// once, even if ctx has ended, so record must not depend on ctx.
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

// attempt runs the handler, unless a policy or an earlier error makes that unnecessary, and
// decides the outcome.
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

// handle runs the handler and waits until it returns.
func (w *Worker) handle(ctx context.Context, a *webhook.Attempt) error {
	event, err := a.Event()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.work.HandlerTimeout)
	defer cancel()
	ctx = apikit.WithPriority(ctx, api.PriorityEvent)
	ctx = webhook.Handling{Key: a.Key, Attempt: a.Number, Stale: a.Stale}.Context(ctx)
	returned := w.watch(ctx, *a)
	err = safecall.Isolated(func() error { return w.work.Handle(ctx, event) })
	returned()
	if err != nil && committed(ctx) {
		// The event counts as handled, so the error must not be reported as its result.
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
		if !state.CompareAndSwap(running, overdue) { // the handler has just returned
			w.overdue.Add(-1)
			return
		}
		w.work.Logger.LogAttrs(ctx, slog.LevelWarn, "webhook handler runs past its timeout", attrsOf(a)[1:]...)
		w.work.Observer.AttemptOverdue(ctx, a)
	})
	return func() {
		if !timer.Stop() && state.Swap(ended) == overdue {
			w.overdue.Add(-1)
		}
	}
}

// decide sets the result of an attempt.
func (w *Worker) decide(ctx context.Context, a *webhook.Attempt) {
	switch {
	case a.Err == nil:
		a.Result = webhook.ResultHandled
	case webhook.IsPermanent(a.Err):
		a.Result = webhook.ResultDead
	case ctx.Err() != nil:
		a.Result = webhook.ResultReturned
	case a.Number >= w.work.Retry.MaxAttempts:
		a.Result = webhook.ResultDead
	case w.work.Retry.MaxAttempts == CallerRetries:
		a.Result = webhook.ResultFailed
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

// KeptFailures is the number of failures stored for each event of an [engine.Engine].
const KeptFailures = 5

// AppendFailure returns a new slice with the failures in kept and the failure of a at the time
// at. It drops the oldest failures beyond [KeptFailures].
func AppendFailure(kept []engine.Failure, a webhook.Attempt, at time.Time) []engine.Failure {
	kept = append(slices.Clip(kept), engine.Failure{
		Attempt: a.Number, At: at.UTC().Truncate(time.Microsecond), Duration: a.Duration,
		Reason: a.Reason(), RequestID: a.RequestID(),
	})
	return kept[max(0, len(kept)-KeptFailures):]
}
