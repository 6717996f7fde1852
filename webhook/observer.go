package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Observer is called by a [Handler] and by workers, for traces, counters and alarms. RequestStart,
// AttemptStart and AttemptEnd delay the handling, so they must be quick. Nil functions are not
// called. Each call has its own goroutine. A panic is logged and has no other effect.
type Observer struct {
	// RequestStart is called before a request is checked. It must not read the body. It returns
	// the context for Tenant, the inbox and RequestEnd, derived from its argument. If it returns
	// nil, the argument is used.
	RequestStart func(context.Context, *http.Request) context.Context

	// RequestEnd is called after the response was sent, with a context that does not end with
	// the request. It may be slow: after 100 ms the connection no longer waits for it. If 256
	// slow calls are running in the process, connections wait.
	RequestEnd func(context.Context, Observation)

	// AttemptStart is called before an attempt, without a Result. It returns the context for the
	// handler and AttemptEnd, derived from its argument. If it returns nil, the argument is used.
	AttemptStart func(context.Context, Attempt) context.Context

	// AttemptOverdue is called once if the handler still runs 5 seconds after
	// [Work].HandlerTimeout. Duration is the time since its start, and Result is empty. The
	// context is the context of the handler and has ended.
	AttemptOverdue func(context.Context, Attempt)

	// AttemptEnd is called after an attempt, once its outcome has been recorded.
	AttemptEnd func(context.Context, Attempt)
}

// safe returns o without nil functions except RequestStart, because a request with a new context is a
// copy. It logs their panics.
func (o Observer) safe(logger *slog.Logger) Observer {
	start := o.RequestStart
	if start != nil {
		start = safecall.Start(logger, start)
	}
	return Observer{
		RequestStart:   start,
		RequestEnd:     safecall.End(logger, o.RequestEnd),
		AttemptStart:   safecall.Start(logger, o.AttemptStart),
		AttemptOverdue: safecall.End(logger, o.AttemptOverdue),
		AttemptEnd:     safecall.End(logger, o.AttemptEnd),
	}
}

// Outcome is the outcome of a request.
type Outcome string

// The outcomes of a request.
const (
	OutcomeAccepted    Outcome = "accepted"    // stored and acknowledged
	OutcomeDuplicate   Outcome = "duplicate"   // stored before, acknowledged again
	OutcomeProbe       Outcome = "probe"       // an empty body, acknowledged with the challenge
	OutcomeRejected    Outcome = "rejected"    // not from the platform, or not readable: 4xx
	OutcomeUnavailable Outcome = "unavailable" // from the platform, but not stored: 503
)

// Observation is the result of a request to a [Handler]. It contains no part of the body. See
// [Alarm].
type Observation struct {
	Outcome Outcome

	// Status is the status of the response.
	Status int

	// Tenant is the name of the tenant, if known.
	Tenant string

	// Key and Type identify the event. Both are zero if the request contains no event.
	Key  Key
	Type events.Type

	// Err is the reason for a status other than 200. It matches the errors of
	// this package, or [events.ErrMalformed] and [events.ErrNoEvent].
	Err error

	// Duration is the duration of the request, by [HandlerConfig].Now.
	Duration time.Duration
}

func rejected(status int, err error) Observation {
	return Observation{Outcome: OutcomeRejected, Status: status, Err: err}
}

// unavailable returns o with the outcome of an event that could not be stored.
func (o Observation) unavailable(err error) Observation {
	o.Outcome, o.Status, o.Err = OutcomeUnavailable, http.StatusServiceUnavailable, err
	return o
}

func (o Observation) level() slog.Level {
	switch o.Outcome {
	case OutcomeRejected:
		return slog.LevelWarn
	case OutcomeUnavailable:
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (o Observation) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("outcome", string(o.Outcome)),
		slog.Int("status", o.Status),
		slog.Duration("duration", o.Duration),
	}
	if o.Tenant != "" {
		attrs = append(attrs, slog.String("tenant", o.Tenant))
	}
	if o.Key.EventID != "" {
		attrs = append(attrs,
			slog.String("environment", o.Key.Environment.String()),
			slog.String("event_id", o.Key.EventID),
			slog.String("event_type", string(o.Type)),
			slog.String("integration_id", o.Key.IntegrationID))
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("reason", o.Err.Error()))
	}
	return attrs
}
