package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/jitter"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [Work].
const (
	defaultWorkers        = 4
	defaultHandlerTimeout = time.Minute
)

// Work configures the handling of events, for every engine. Handle is required.
type Work struct {
	// Handle handles an event, usually [Router.Dispatch]. Its context ends with HandlerTimeout
	// and when Close stops waiting, not with the request. See [HandlingFrom].
	Handle HandlerFunc

	// Start delays the handling of events until it is closed. Until then the engine accepts events
	// and claims none, so other processes can handle them. Nil means no delay.
	Start <-chan struct{}

	// Workers is the number of events that this process handles at a time. 0 means 4.
	Workers int

	// Retry decides how often and when a failed event is retried.
	Retry RetryPolicy

	// HandlerTimeout ends the context of an attempt. 0 means 1 minute. A handler that ignores its
	// context keeps its worker. If it still runs 5 seconds later, it is logged and reported to
	// Observer.AttemptOverdue.
	HandlerTimeout time.Duration

	// Order returns the [OrderingKey] of an event. Use [ByObject], [ByPatient], [ByClinic], or a
	// function that depends only on its arguments. Events of one key are handled in order. An
	// event with an empty key waits for no other event. Nil means no order.
	//
	// To order events over all integrations of a clinic:
	//
	//	func(d webhook.Delivery, e events.Event) webhook.OrderingKey {
	//		d.Key.IntegrationID = ""
	//		return webhook.ByPatient(d, e)
	//	}
	Order func(Delivery, events.Event) OrderingKey

	// Stale handles an event that arrives after a newer event of its object was handled.
	// Policies other than [StalePolicyIgnore] need Order.
	//
	// Two events of an object can have the same time, because the API does not state the
	// resolution of its times. The event that created the object is the oldest. Two other events
	// have no order: neither is stale, and the last to arrive is handled last. If that matters, as
	// for a plan that is changed and immediately canceled, read the object by its ID in the handler.
	Stale StalePolicy

	// Logger logs the event ID and type, the attempt, the outcome and the kind of error of every
	// attempt. It does not log the text of a handler's error, which may repeat patient data:
	// Observer gets it. Nil disables logging.
	Logger *slog.Logger

	// Observer watches every attempt with its AttemptStart, AttemptOverdue and AttemptEnd.
	Observer Observer
}

// StalePolicy is the policy for a stale event. An event is stale if a newer event of its object
// (patient, treatment plan, order, product) was handled before, by the time of the platform. For
// example, an event is late if its first delivery failed.
//
// An event without a time, or with the time of the newest event, is never stale.
type StalePolicy int

// The stale policies.
const (
	// StalePolicyIgnore handles the event, and stores no times.
	StalePolicyIgnore StalePolicy = iota

	// StalePolicyReport handles the event, and sets Handling.Stale.
	StalePolicyReport

	// StalePolicySkip skips the event. Use it for handlers that only need the latest state of an
	// object.
	StalePolicySkip
)

// WithDefaults returns w with its defaults, for engines. Its Start, its Logger and the functions of
// its Observer are not nil. The functions do not panic. An error is an [*api.ArgumentError].
func (w Work) WithDefaults() (Work, error) {
	switch {
	case w.Handle == nil:
		return w, argumentError("Work.Handle", "is missing")
	case w.Workers < 0:
		return w, argumentError("Work.Workers", "is negative")
	case w.HandlerTimeout < 0:
		return w, argumentError("Work.HandlerTimeout", "is negative")
	case w.Stale < StalePolicyIgnore || w.Stale > StalePolicySkip:
		return w, argumentError("Work.Stale", "is not a stale policy")
	case w.Stale != StalePolicyIgnore && w.Order == nil:
		return w, argumentError("Work.Stale", "needs Work.Order: without it, two events of one object can be handled at the same time")
	}
	retry, err := w.Retry.withDefaults()
	if err != nil {
		return w, err
	}
	w.Retry = retry
	if w.Start == nil {
		started := make(chan struct{})
		close(started)
		w.Start = started
	}
	w.Workers = cmp.Or(w.Workers, defaultWorkers)
	w.HandlerTimeout = cmp.Or(w.HandlerTimeout, defaultHandlerTimeout)
	w.Logger = safecall.Logger(w.Logger)
	w.Observer = w.Observer.safe(w.Logger)
	return w, nil
}

// Handling describes the attempt of a handler.
type Handling struct {
	// Key identifies the event.
	Key Key

	// Attempt counts from 1, and from 1 again after a replay.
	Attempt int

	// Stale reports whether a newer event of the object was handled before. See [Work.Stale].
	Stale bool
}

type handlingKey struct{}

// Context returns a context for a handler: see [HandlingFrom].
func (h Handling) Context(parent context.Context) context.Context {
	return context.WithValue(parent, handlingKey{}, h)
}

// HandlingFrom returns the Handling in a handler's context. It returns the zero Handling for any
// other context.
func HandlingFrom(ctx context.Context) Handling {
	h, _ := ctx.Value(handlingKey{}).(Handling)
	return h
}

// Result is the recorded result of an attempt to handle an event.
type Result string

// The results of an attempt.
const (
	// ResultHandled: the handler succeeded. The engine keeps the key and deletes the body. If
	// Attempt.Object is set, it stores Attempt.CreatedAt as the newest time of the object.
	ResultHandled Result = "handled"

	// ResultSkipped: the event is stale and [Work.Stale] is [StalePolicySkip]. The event is done.
	ResultSkipped Result = "skipped"

	// ResultFailed: the event is due again after Attempt.RetryIn.
	ResultFailed Result = "failed"

	// ResultDead: the event is a dead letter.
	ResultDead Result = "dead"

	// ResultReturned: the handler stopped because its context ended. The event is due immediately,
	// and the attempt does not count.
	ResultReturned Result = "returned"

	// ResultLost: the outcome could not be recorded, so the event is usually handled again. Only
	// observers see this result.
	ResultLost Result = "lost"
)

// Attempt is one attempt to handle an event. It prints as its [Delivery] does.
type Attempt struct {
	Delivery

	// Number counts from 1, and from 1 again after a replay.
	Number int

	Result Result

	// Stale reports whether a newer event of the same object was handled before.
	Stale bool

	// Object is the key of the event's object. It is empty if [Work.Stale] is [StalePolicyIgnore] or
	// the event has no time.
	Object OrderingKey

	// Err is the error of the handler or a [PanicError], and nil if the event is done. It may
	// repeat patient data.
	Err error

	// RetryIn is the wait until the next attempt of a failed event.
	RetryIn time.Duration

	// Duration is the run time of the handler.
	Duration time.Duration
}

// Defaults of a [RetryPolicy]. Together they retry for about ten hours.
const (
	defaultMaxAttempts = 25
	defaultBackOff     = time.Second
	defaultMaxBackOff  = time.Hour
)

// RetryPolicy is the policy for failed events. The zero value is the default.
type RetryPolicy struct {
	// MaxAttempts is the number of attempts until an event becomes a dead letter. 0 means 25.
	MaxAttempts int

	// BackOff is the wait after the first failed attempt. It doubles after each failure up to
	// MaxBackOff. 0 means 1 second for BackOff and 1 hour for MaxBackOff. Each wait is shortened
	// at random by up to a half, so that events do not retry together.
	BackOff, MaxBackOff time.Duration
}

func (p RetryPolicy) withDefaults() (RetryPolicy, error) {
	if p.MaxAttempts < 0 || p.BackOff < 0 || p.MaxBackOff < 0 {
		return p, argumentError("RetryPolicy", "contains a negative value")
	}
	p.MaxAttempts = cmp.Or(p.MaxAttempts, defaultMaxAttempts)
	p.BackOff = cmp.Or(p.BackOff, defaultBackOff)
	p.MaxBackOff = cmp.Or(p.MaxBackOff, defaultMaxBackOff)
	return p, nil
}

// Wait returns the wait after an attempt. Attempts count from 1. Wait does not apply the defaults:
// see [Work.WithDefaults].
func (p RetryPolicy) Wait(attempt int) time.Duration {
	return jitter.Backoff(attempt, p.BackOff, p.MaxBackOff)
}

// Permanent marks an error that no retry can fix, so the event becomes a dead letter immediately.
// A nil error stays nil.
//
// Logs and dead letters show the reason of the error, not its text: see [Attempt.Reason].
// Set it with [WithReason], or use an error type with a telling name:
//
//	return webhook.Permanent(webhook.WithReason("no_chart", err))
//
// Decoding errors of a body or its data are permanent without this mark, and so is an
// [*api.EnsureError] with [api.EnsureReasonAltered].
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err is permanent, so that no retry can fix it. See [Permanent].
func IsPermanent(err error) bool {
	var marked *permanentError
	var data *events.DataError
	var ensure *api.EnsureError
	if errors.As(err, &ensure) && ensure != nil && ensure.Reason == api.EnsureReasonAltered {
		return true // a retry in another process would create another record
	}
	return errors.As(err, &marked) || errors.As(err, &data) ||
		errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrNoEvent)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
