package reconcile

import (
	"context"
	"errors"
	"log/slog"

	"github.com/dispensary-go/dispensary/api"
)

// log logs a run. disconnected reports whether the last run failed because no user of the
// clinic is connected.
func (r Report) log(ctx context.Context, logger *slog.Logger, err error, disconnected bool) {
	level, message := r.summary()
	attrs := []slog.Attr{slog.String("name", r.Name), slog.Any("report", r)}
	if err != nil {
		level, message = failure(ctx, err, disconnected)
		attrs = append(attrs, slog.String("reason", err.Error()))
	}
	if len(r.Gaps) > 0 {
		attrs = append(attrs, slog.String("first_gap", r.Gaps[0].String()))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}

// summary returns the level and the message of a run without an error.
func (r Report) summary() (slog.Level, string) {
	const message = "webhook events reconciled"
	switch {
	case r.Skipped:
		return slog.LevelDebug, message
	case r.NoWebhooks.Counts():
		return slog.LevelWarn, message + ": webhooks do not arrive, events come only by reconciliation"
	case !r.First && len(r.Recovered) > r.Unchecked:
		return slog.LevelWarn, message + ": some had not arrived as webhooks"
	case len(r.Gaps) > 0 || r.Retries > 0:
		return slog.LevelWarn, message + ": some could not be recovered"
	}
	return slog.LevelInfo, message
}

// failure returns the level and the message of a run that failed. The end of ctx is no failure:
// it interrupts runs at each deployment, and another replica or the next start resumes them.
func failure(ctx context.Context, err error, disconnected bool) (slog.Level, string) {
	const message = "webhook events not reconciled"
	switch {
	case ctx.Err() != nil:
		return slog.LevelInfo, message + ": interrupted"
	case errors.Is(err, ErrCheckpointHeld):
		return slog.LevelDebug, message
	case errors.Is(err, api.ErrReauthorize) && disconnected:
		return slog.LevelDebug, message + ": no user of the clinic is connected"
	case errors.Is(err, api.ErrReauthorize):
		return slog.LevelWarn, message + ": no user of the clinic is connected"
	}
	return slog.LevelError, message
}
