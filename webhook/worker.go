package webhook

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Worker is the part of an [Engine] that is the same for all: it runs the
// handler for one event and decides what follows. It holds no state of its own,
// and is safe for concurrent use. Programs use an engine; a Worker is for those
// who write one.
type Worker struct{ work Work }

// NewWorker returns a worker, or what is wrong with w.
func NewWorker(w Work) (*Worker, error) {
	w, err := w.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{work: w}, nil
}

// Work returns what the worker was made of, with the defaults filled in.
func (w *Worker) Work() Work { return w.work }

// Format prints the type only.
func (w *Worker) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "webhook.Worker") }

// Subjects returns what an engine stores with an accepted event, while it still
// has the body in clear: the subject that the event waits in line for, and the
// object that the stale guard knows it by. Either may be empty.
func (w *Worker) Subjects(d Delivery) (order, object Subject) {
	if w.work.Order == nil {
		return "", ""
	}
	event, err := d.Event()
	if err != nil {
		return "", "" // nothing but the body is known of it
	}
	order = w.work.Order(d, event)
	if w.work.Stale != StaleIgnore && !d.CreatedAt.IsZero() {
		object = ByObject(d, event)
	}
	return order, object
}

// Task is one attempt that a [Worker] is asked to make.
type Task struct {
	Delivery

	// Attempt counts from 1.
	Attempt int

	// Object is what [Worker.Subjects] returned for it, and Newest the time of
	// the newest event of this object that was handled; both may be zero.
	Object Subject
	Newest time.Time

	// Err is set by an engine that cannot give the event to a handler: its body
	// cannot be opened, see engine.OpenBody, or all its workers died, see
	// [ErrAbandoned]. It is the attempt's error then.
	Err error
}

// stale reports that a newer event of the object was handled. What was handled in
// the moment in which the object was created is newer than that.
func (t Task) stale() bool {
	return t.Object != "" && (t.CreatedAt.Before(t.Newest) || isCreated(t.Type) && t.CreatedAt.Equal(t.Newest))
}

// Do makes one attempt: it calls the handler, with its time-out, on a goroutine
// of its own, so that not even a runtime.Goexit harms the engine; gives the
// outcome to settle; and then, and not before, logs and reports it. It returns
// the error of settle.
//
// When ctx ends, so does the handler's context; what fails by that is
// [ResultReturned]. Do waits for the handler in any case, and settle is called
// exactly once, even if ctx has ended: it must not depend on ctx.
func (w *Worker) Do(ctx context.Context, t Task, settle func(Attempt) error) error {
	ctx = w.begin(ctx, t)
	a := w.attempt(ctx, t)
	err := settle(a)
	if err != nil {
		a.Result, a.RetryIn, a.Err = ResultLost, 0, err
	}
	w.observe(ctx, a)
	return err
}

func (w *Worker) attempt(ctx context.Context, t Task) Attempt {
	a := Attempt{Delivery: t.Delivery, Number: t.Attempt, Object: t.Object, Err: t.Err}
	a.Stale = w.work.Stale != StaleIgnore && t.stale()
	if a.Stale && w.work.Stale == StaleSkip {
		a.Result, a.Err = ResultSkipped, nil
		return a
	}
	start := time.Now()
	if a.Err == nil {
		a.Err = w.handle(ctx, a)
	}
	a.Duration = time.Since(start)
	w.judge(ctx, &a)
	return a
}

// handle runs the handler and waits for its end.
func (w *Worker) handle(ctx context.Context, a Attempt) error {
	event, err := a.Event()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.work.HandlerTimeout)
	defer cancel()
	ctx = withHandling(ctx, Handling{Key: a.Key, Attempt: a.Number, Stale: a.Stale})
	return safecall.Isolated(func() error { return w.work.Handle(ctx, event) })
}

// judge decides what follows from an attempt that was made.
func (w *Worker) judge(ctx context.Context, a *Attempt) {
	switch {
	case a.Err == nil:
		a.Result = ResultHandled
	case IsPermanent(a.Err):
		a.Result = ResultDead
	case ctx.Err() != nil:
		a.Result = ResultReturned
	case a.Number >= w.work.Retry.MaxAttempts:
		a.Result = ResultDead
	default:
		a.Result, a.RetryIn = ResultFailed, w.work.Retry.wait(a.Number)
	}
}

// Handling is what a handler can ask about the attempt it is made for.
type Handling struct {
	// Key names the event.
	Key Key

	// Attempt counts from 1, and from 1 again after a replay.
	Attempt int

	// Stale reports that a newer event of the same object was handled before:
	// the data of this one is old. See [Work.Stale], also for events of the same
	// moment.
	Stale bool
}

type handlingKey struct{}

func withHandling(ctx context.Context, h Handling) context.Context {
	return context.WithValue(ctx, handlingKey{}, h)
}

// HandlingFrom returns what is known of the attempt that ctx was made for; the
// zero Handling if ctx is not that of a handler.
func HandlingFrom(ctx context.Context) Handling {
	h, _ := ctx.Value(handlingKey{}).(Handling)
	return h
}

// Refetch returns a handler that does not trust the event's data: it reads the
// object as it is now, and handles the event with that in place of the data.
// The event says that something happened, the API says what is true, so that
// neither late nor repeated events do harm:
//
//	router.OnTreatmentPlanUpdated(webhook.Refetch(
//		func(ctx context.Context, e events.TreatmentPlanEvent) (treatmentplans.Plan, error) {
//			return clientOf(e.ClinicID).TreatmentPlans.Get(ctx, e.Data.ID)
//		}, savePlan))
//
// Event.Data is nil then, and Typed.Data is what read returned. An error of read
// is an error of the handler; where [api.ErrNotFound] means that there is
// nothing left to do, wrap it in [Permanent], or handle it in read.
func Refetch[T events.Payload](
	read func(context.Context, events.Typed[T]) (T, error),
	handle func(context.Context, events.Typed[T]) error,
) func(context.Context, events.Typed[T]) error {
	return func(ctx context.Context, e events.Typed[T]) error {
		current, err := read(ctx, e)
		if err != nil {
			return err
		}
		e.Data, e.Event.Data = current, nil
		return handle(ctx, e)
	}
}
