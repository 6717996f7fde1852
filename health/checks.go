package health

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Ping is the check of what can be asked whether it is there, as the PingContext method
// of a database. It is failing if it is not.
func Ping(ping func(context.Context) error) Check {
	return func(ctx context.Context) Result {
		if err := ping(ctx); err != nil {
			return Result{Status: Failing, Err: err}
		}
		return Result{Status: OK}
	}
}

// Store asks a token store for the record of a user of an environment who does not
// exist. It is failing while the store does not answer.
func Store(store tokens.Store, environment api.Environment) Check {
	return Ping(func(ctx context.Context) error {
		_, err := store.Load(ctx, tokens.Key{Environment: environment, User: "health check of dispensary"})
		if errors.Is(err, tokens.ErrNoRecord) {
			return nil
		}
		return err
	})
}

// Inbox asks an inbox for its [engine.Stats]: how many events wait, are being handled
// and were given up, and how long the oldest has waited. It is failing while the inbox
// does not answer, and degraded while the oldest waits for longer than limit: handlers
// are too slow, or fail. An event that fails waits for ten hours before it is given up,
// unless [webhook.RetryPolicy] says otherwise.
func Inbox(inbox engine.Engine, limit time.Duration) Check {
	return func(ctx context.Context) Result {
		stats, err := inbox.Stats(ctx)
		if err != nil {
			return Result{Status: Failing, Err: err}
		}
		var age time.Duration
		if !stats.Oldest.IsZero() {
			age = time.Since(stats.Oldest)
		}
		result := Result{Status: OK, Details: map[string]any{
			"waiting": stats.Waiting, "running": stats.Running, "dead": stats.Dead, "oldest_seconds": int(age.Seconds()),
		}}
		if age > limit {
			result.Status, result.Err = Degraded, errors.New("health: the oldest event waits for longer than "+limit.String())
		}
		return result
	}
}

// Alarm is degraded during an outage of webhooks. The details are its kind, its start, and
// the number of failures. An outage of kind [webhook.OutageKindRejecting] shows no number:
// the requests of strangers are part of it, and strangers may read the check.
func Alarm(alarm *webhook.Alarm) Check {
	return func(context.Context) Result {
		outage, counts := alarm.Outage()
		if !counts {
			return Result{Status: OK}
		}
		result := Result{Status: Degraded, Err: outage.Reason, Details: map[string]any{
			"kind": string(outage.Kind), "since": outage.Since.UTC().Format(time.RFC3339),
		}}
		if outage.Kind != webhook.OutageKindRejecting {
			result.Details["failures"] = outage.Failures
		}
		return result
	}
}

// Breaker is degraded while refreshing in the background pauses, because the platform
// refuses the application or the tokens of many users, and while the store does not take
// refreshed tokens: do not end the process then.
func Breaker(conns *tokens.Connections) Check {
	return func(context.Context) Result {
		pending := conns.PendingCommits()
		result := Result{Status: OK, Details: map[string]any{"pending_commits": pending}}
		if pending > 0 {
			result.Status, result.Err = Degraded, errors.New("health: the store does not take refreshed tokens")
		}
		if until, paused := conns.Paused(); paused {
			result.Status, result.Err = Degraded, errors.New("health: refreshing in the background pauses")
			result.Details["paused_until"] = until.UTC().Format(time.RFC3339)
		}
		return result
	}
}
