package webhook

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/events"
)

// Defaults of a [Work].
const (
	// DefaultWorkers is how many events a process handles at a time.
	DefaultWorkers = 4

	// DefaultHandlerTimeout is how long a handler may take.
	DefaultHandlerTimeout = time.Minute
)

// Work says how events are handled, whichever engine holds them. Handle is
// required; everything else has a default.
type Work struct {
	// Handle handles an event; usually it is the Dispatch method of a [Router].
	// Its context is not that of the request that brought the event: it ends
	// with HandlerTimeout, or when Close gives up. [HandlingFrom] reads from it
	// which attempt this is, and whether the event is stale.
	Handle HandlerFunc

	// Workers is how many events are handled at a time in this process; 0 means
	// [DefaultWorkers].
	Workers int

	// Retry says how often a failing event is tried, and when.
	Retry RetryPolicy

	// HandlerTimeout ends the context of an attempt; 0 means
	// [DefaultHandlerTimeout]. A handler that ignores its context keeps its
	// worker. If it still runs 5 seconds later, it is logged and reported to
	// Observer.AttemptOverdue.
	HandlerTimeout time.Duration

	// Order keeps events of one [OrderingKey] in order: [ByObject], [ByPatient],
	// [ByClinic], or a function of your own. It gets the delivery and the event
	// read from it, and must return the same for the same; an event whose key is
	// empty waits for no other. Nil means that events are handled as they come,
	// several of one object at the same time included.
	//
	// Order over all integrations of a clinic is a function that leaves them out:
	//
	//	func(d webhook.Delivery, e events.Event) webhook.OrderingKey {
	//		d.Key.IntegrationID = ""
	//		return webhook.ByPatient(d, e)
	//	}
	Order func(Delivery, events.Event) OrderingKey

	// Stale is what happens to an event that arrives after a newer one of the
	// same object was handled. Other than [StaleIgnore] it needs Order, because
	// of two events that are handled at the same time none is the later.
	//
	// Two events of one object can have one time, as two calls can be faster than
	// the platform's times are fine, which the API does not state. That an object
	// was created is older then than every other event of it. Which of two changes
	// of one time was the last is not known: neither is stale, and
	// whichever arrives last is handled last. Where that matters, for a plan that
	// is changed and canceled at once, let the handler read the object by its id.
	Stale StalePolicy

	// Logger logs every attempt: event id and type, attempt, outcome, and the kind
	// of error. The text of a handler's error is not logged, as it may repeat
	// patient data; Observer has it. Nil logs nothing.
	Logger *slog.Logger

	// Observer watches every attempt: its AttemptStart, AttemptOverdue and AttemptEnd.
	Observer Observer
}

// StalePolicy is what happens to an event that arrives after a newer one of the
// same object (patient, treatment plan, order, product) was handled, by the time
// the platform created them. The platform delivers in order "without
// guarantee": an event whose first delivery failed comes later than the next.
//
// An event without a time is never stale, and neither is a change of the same time
// as the newest: see [Work.Stale].
type StalePolicy int

// The stale policies.
const (
	// StaleIgnore handles it like any other, and keeps no record of what is new.
	StaleIgnore StalePolicy = iota

	// StaleReport handles it, and lets the handler know: Handling.Stale.
	StaleReport

	// StaleSkip does not handle it. It is for handlers to which an event is
	// the state of its object and nothing else: whatever else the event told,
	// that a plan was created before it was updated, is not seen.
	StaleSkip
)

// WithDefaults checks w and fills in what was left out, for those who make something
// that handles events. An error is an [*api.ArgumentError].
func (w Work) WithDefaults() (Work, error) {
	switch {
	case w.Handle == nil:
		return w, argumentError("Work.Handle", "is missing")
	case w.Workers < 0:
		return w, argumentError("Work.Workers", "is negative")
	case w.HandlerTimeout < 0:
		return w, argumentError("Work.HandlerTimeout", "is negative")
	case w.Stale < StaleIgnore || w.Stale > StaleSkip:
		return w, argumentError("Work.Stale", "is none of the stale policies")
	case w.Stale != StaleIgnore && w.Order == nil:
		return w, argumentError("Work.Stale", "needs Work.Order: two events of one object that are handled at the same time have no order")
	}
	retry, err := w.Retry.withDefaults()
	if err != nil {
		return w, err
	}
	w.Retry = retry
	w.Workers = cmp.Or(w.Workers, DefaultWorkers)
	w.HandlerTimeout = cmp.Or(w.HandlerTimeout, DefaultHandlerTimeout)
	return w, nil
}

// Handling is what a handler can ask about the attempt it is made for.
type Handling struct {
	// Key names the event.
	Key Key

	// Attempt counts from 1, and from 1 again after a replay.
	Attempt int

	// Stale reports that a newer event of the same object was handled before: the
	// data of this one is old. See [Work.Stale], also for events of the same time.
	Stale bool
}

type handlingKey struct{}

// Context returns a context for a handler that [HandlingFrom] reads h from.
func (h Handling) Context(parent context.Context) context.Context {
	return context.WithValue(parent, handlingKey{}, h)
}

// HandlingFrom returns what is known of the attempt that ctx was made for; the zero
// Handling if ctx is not that of a handler.
func HandlingFrom(ctx context.Context) Handling {
	h, _ := ctx.Value(handlingKey{}).(Handling)
	return h
}
