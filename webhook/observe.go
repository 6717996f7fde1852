package webhook

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Outcome says in a word what became of a request.
type Outcome string

// The outcomes of a request.
const (
	OutcomeAccepted    Outcome = "accepted"    // stored and acknowledged
	OutcomeDuplicate   Outcome = "duplicate"   // stored before, acknowledged again
	OutcomeProbe       Outcome = "probe"       // an empty body, answered with the challenge
	OutcomeRefused     Outcome = "refused"     // not from the platform, or not readable: 4xx
	OutcomeUnavailable Outcome = "unavailable" // from the platform, but not stored: 503
)

// Observation is what a [Handler] tells of a request. It holds nothing of the
// body. An [Alarm] makes warnings of them, before the platform switches the
// address off.
type Observation struct {
	Outcome Outcome

	// Status is what was answered.
	Status int

	// Tenant is the name of the tenant, where one is known.
	Tenant string

	// Key and Type name the event; zero where none was read.
	Key  Key
	Type events.Type

	// Err is the reason for a status other than 200. It matches the errors of
	// this package, or [events.ErrMalformed] and [events.ErrNoEvent].
	Err error

	// Duration is how long the request took, by [Config.Now].
	Duration time.Duration
}

func refused(status int, err error) Observation {
	return Observation{Outcome: OutcomeRefused, Status: status, Err: err}
}

// unavailable returns o as that of an event that could not be stored.
func (o Observation) unavailable(err error) Observation {
	o.Outcome, o.Status, o.Err = OutcomeUnavailable, http.StatusServiceUnavailable, err
	return o
}

// begin gives the request the context that it is observed in.
func (h *Handler) begin(r *http.Request) *http.Request {
	if h.config.Begin == nil {
		return r
	}
	given := r.Context()
	safecall.Observe(given, h.config.Logger, func() {
		if made := h.config.Begin(r); made != nil {
			given = made
		}
	})
	return r.WithContext(given)
}

// observe logs a request that has been answered, and tells the observer.
func (h *Handler) observe(ctx context.Context, o Observation) {
	if level := o.level(); h.config.Logger.Enabled(ctx, level) {
		h.config.Logger.LogAttrs(ctx, level, "webhook "+string(o.Outcome), o.attrs()...)
	}
	if h.config.Observe != nil {
		safecall.Observe(ctx, h.config.Logger, func() { h.config.Observe(ctx, o) })
	}
}

func (o Observation) level() slog.Level {
	switch o.Outcome {
	case OutcomeRefused:
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
