package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Result says in a word what became of an attempt to handle an event, and so
// what an [Engine] has to note.
type Result string

// The results of an attempt.
const (
	// ResultHandled: the handler succeeded. The event is done; its key is kept
	// and its body is not. Where Attempt.Object is set, the engine notes that
	// the object is as new as Attempt.CreatedAt.
	ResultHandled Result = "handled"

	// ResultSkipped: a newer event of the same object was handled before, and
	// [Work.Stale] says not to bother. The event is done.
	ResultSkipped Result = "skipped"

	// ResultFailed: the event is due again after Attempt.RetryIn.
	ResultFailed Result = "failed"

	// ResultDead: the event is a dead letter.
	ResultDead Result = "dead"

	// ResultReturned: the handler was told to stop and did. The event is due at
	// once, and the attempt does not count.
	ResultReturned Result = "returned"

	// ResultLost: what became of the attempt could not be noted, and the event
	// will be handled again. Engines are not told of it, observers are.
	ResultLost Result = "lost"
)

// Attempt is one attempt to handle an event. It prints as its [Delivery] does.
type Attempt struct {
	Delivery

	// Number counts from 1, and from 1 again after a replay.
	Number int

	// Result is what became of it.
	Result Result

	// Stale reports that a newer event of the same object was handled before.
	Stale bool

	// Object is what the stale guard knows the event's object by; empty if
	// there is no guard, or the event does not say when it happened.
	Object Subject

	// Err is what the handler returned, or a [PanicError]; nil if the event is
	// done. It may repeat patient data if the handler's errors do.
	Err error

	// RetryIn is the wait until the next attempt of an event that failed.
	RetryIn time.Duration

	// Duration is how long the handler took.
	Duration time.Duration
}

// Reason describes Err without its text, which a handler may have put patient
// data into: it can be logged and stored. It is empty if Err is nil.
func (a Attempt) Reason() string { return reason(a.Err) }

// begin returns the context that an attempt is made and observed in.
func (w *Worker) begin(ctx context.Context, t Task) context.Context {
	if w.work.Begin == nil {
		return ctx
	}
	given := ctx
	safecall.Observe(ctx, w.work.Logger, func() {
		if made := w.work.Begin(given, t); made != nil {
			ctx = made
		}
	})
	return ctx
}

// observe logs an attempt and tells the observer.
func (w *Worker) observe(ctx context.Context, a Attempt) {
	if level := a.level(); w.work.Logger.Enabled(ctx, level) {
		w.work.Logger.LogAttrs(ctx, level, "webhook event "+string(a.Result), a.attrs()...)
	}
	if w.work.Observe != nil {
		safecall.Observe(ctx, w.work.Logger, func() { w.work.Observe(ctx, a) })
	}
}

func (a Attempt) level() slog.Level {
	switch a.Result {
	case ResultHandled, ResultSkipped, ResultReturned:
		return slog.LevelInfo
	case ResultFailed:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func (a Attempt) attrs() []slog.Attr {
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
	if a.RetryIn > 0 {
		attrs = append(attrs, slog.Duration("retry_in", a.RetryIn))
	}
	if p := PanicError(nil); errors.As(a.Err, &p) {
		attrs = append(attrs, slog.String("stack", p.Stack()))
	}
	return attrs
}

// harmless are errors whose texts hold nothing of an event.
var harmless = []error{
	events.ErrMalformed, events.ErrNoEvent, context.DeadlineExceeded, context.Canceled,
	ErrAbandoned, seal.ErrNotSealed, seal.ErrTampered, seal.ErrUnknownKey, ErrBodyLost,
}

// reason describes an error without its text, which a handler may have put
// patient data into. The errors of this module hold none and are quoted.
func reason(err error) string {
	if err == nil {
		return ""
	}
	var marked *permanentError
	if errors.As(err, &marked) {
		return "permanent: " + reason(marked.err)
	}
	var data *events.DataError
	var call *api.Error
	var caught PanicError
	switch {
	case errors.As(err, &data):
		return data.Error()
	case errors.As(err, &call):
		return call.Error()
	case errors.As(err, &caught):
		return caught.Error()
	}
	// The text of the sentinel and not of what wraps it: a handler may have
	// added to it.
	for _, known := range harmless {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	return fmt.Sprintf("error of type %T", err)
}
