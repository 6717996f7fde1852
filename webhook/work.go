package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/safecall"
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

// WithDefaults returns w with its defaults, for engines. Its Logger and the functions of its
// Observer are not nil and do not panic. An error is an [*api.ArgumentError].
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
