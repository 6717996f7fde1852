package webhook

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Defaults of a [Work].
const (
	// DefaultWorkers is how many events a process handles at a time.
	DefaultWorkers = 4

	// DefaultHandlerTimeout is how long a handler may take.
	DefaultHandlerTimeout = time.Minute
)

// Work says how events are handled, whichever [Engine] holds them. Handle is
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
	// worker.
	HandlerTimeout time.Duration

	// Order keeps events of one subject in order: [ByObject], [ByPatient],
	// [ByClinic], or a function of your own. Nil means that events are handled
	// as they come, several of one object at the same time included.
	Order SubjectFunc

	// Stale is what happens to an event that arrives after a newer one of the
	// same object was handled. Other than [StaleIgnore] it needs Order, because
	// of two events that are handled at the same time none is the later.
	//
	// Two events of one object can have one time, as two calls can be faster than
	// the platform's times are fine, which the API does not state. That an object
	// was created is older then than everything else that is told of it. Of two
	// changes of one time nobody knows which was the last: neither is stale, and
	// whichever arrives last is handled last. Where that matters, for a plan that
	// is changed and cancelled at once, read the object instead: [Refetch].
	Stale StalePolicy

	// Logger is told of every attempt: event id and type, attempt, outcome, and
	// the kind of error. The text of a handler's error is not logged, as it may
	// repeat patient data; Observe has it. Nil means silence.
	Logger *slog.Logger

	// Begin is called before every attempt, for traces; nil means that nobody
	// is. The context that it returns, which has to be made from the one given,
	// is that of the handler and of Observe; nil means the one given.
	Begin func(context.Context, Task) context.Context

	// Observe is called after every attempt, once its outcome has been noted,
	// for counters and alarms; nil means that nobody is. It runs in the worker.
	Observe func(context.Context, Attempt)
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

	// StaleReport handles it, and tells the handler: Handling.Stale.
	StaleReport

	// StaleSkip does not handle it. It is for handlers to which an event is
	// the state of its object and nothing else: whatever else the event told,
	// that a plan was created before it was updated, is not seen.
	StaleSkip
)

func (w Work) withDefaults() (Work, error) {
	switch {
	case w.Handle == nil:
		return w, errors.New("webhook: Work.Handle is missing")
	case w.Workers < 0 || w.HandlerTimeout < 0:
		return w, errors.New("webhook: Work holds a negative number")
	case w.Stale < StaleIgnore || w.Stale > StaleSkip:
		return w, errors.New("webhook: Work.Stale is none of the stale policies")
	case w.Stale != StaleIgnore && w.Order == nil:
		return w, errors.New("webhook: Work.Stale needs Work.Order: two events of one object that are handled at the same time have no order")
	}
	retry, err := w.Retry.withDefaults()
	if err != nil {
		return w, err
	}
	w.Retry = retry
	orDefault(&w.Workers, DefaultWorkers)
	orDefault(&w.HandlerTimeout, DefaultHandlerTimeout)
	w.Logger = safecall.Logger(w.Logger)
	return w, nil
}

func orDefault[T comparable](field *T, value T) {
	if *field == *new(T) {
		*field = value
	}
}
