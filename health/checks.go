package health

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Store returns a check that is failing if a token store does not accept a write.
func Store(store tokenstore.Store) Check {
	return func(ctx context.Context) Result {
		if err := store.CheckWrite(ctx); err != nil {
			return Result{Status: StatusFailing, Err: err}
		}
		return Result{Status: StatusOK}
	}
}

// Inbox returns a check that is failing if an inbox would not store an event, or cannot be
// read. It shows the [engine.Stats]. It is degraded
//
//   - if the oldest event has waited for longer than limit, because handlers are too slow or
//     fail. An event that fails is retried for ten hours, unless [webhook.RetryPolicy]
//     is set;
//   - if handlers ignore the end of their time, and so keep their workers;
//   - if the inbox stores events but cannot count them in time.
func Inbox(inbox engine.Engine, limit time.Duration) Check {
	return func(ctx context.Context) Result {
		if err := inbox.CheckWrite(ctx); err != nil {
			return Result{Status: StatusFailing, Err: err}
		}
		stats, err := inbox.Stats(ctx)
		if err != nil && ctx.Err() != nil {
			return Result{Status: StatusDegraded, Err: err}
		}
		if err != nil {
			return Result{Status: StatusFailing, Err: err}
		}
		var age time.Duration
		if !stats.Oldest.IsZero() {
			age = time.Since(stats.Oldest)
		}
		result := Result{Status: StatusOK, Details: map[string]any{
			"waiting": stats.Waiting, "running": stats.Running, "dead": stats.Dead,
			"overdue": stats.Overdue, "oldest_seconds": int(age.Seconds()),
		}}
		if age > limit {
			result.Status, result.Err = StatusDegraded, errors.New("health: the oldest event has waited for longer than "+limit.String())
		}
		if stats.Overdue > 0 {
			result.Status, result.Err = StatusDegraded, errors.New("health: handlers ignore the end of their time and keep their workers")
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
			return Result{Status: StatusOK}
		}
		result := Result{Status: StatusDegraded, Err: outage.Reason, Details: map[string]any{
			"kind": string(outage.Kind), "since": outage.Since.UTC().Format(time.RFC3339),
		}}
		if outage.Kind != webhook.OutageKindRejecting {
			result.Details["failures"] = outage.Failures
		}
		return result
	}
}

// TokenRefresh is degraded while refreshing in the background pauses, because the platform
// refuses the application or the tokens of many users, and while the store does not take
// refreshed tokens: do not end the process then.
func TokenRefresh(conns *tokens.Connections) Check {
	return func(context.Context) Result {
		pending := conns.PendingCommits()
		result := Result{Status: StatusOK, Details: map[string]any{"pending_commits": pending}}
		if pending > 0 {
			result.Status, result.Err = StatusDegraded, errors.New("health: the store does not take refreshed tokens")
		}
		if until, paused := conns.Paused(); paused {
			result.Status, result.Err = StatusDegraded, errors.New("health: refreshing in the background pauses")
			result.Details["paused_until"] = until.UTC().Format(time.RFC3339)
		}
		return result
	}
}

// missedIntervals is the number of intervals without a run after which the reconciler counts as
// stopped.
const missedIntervals = 3

// failingFor is the time after which a clinic that cannot be reconciled degrades the check.
const failingFor = 24 * time.Hour

// Reconcile checks the search for missed webhooks. clinics is [reconcile.Clinics.Stats], and every
// the interval of its loop. It is degraded
//
//   - if no replica has reconciled for three intervals, counted from the call of Reconcile at
//     the earliest,
//   - while the events of a clinic arrive only by reconciliation, because the platform may have
//     disabled the endpoint,
//   - if a clinic that has a connected user could not be reconciled for a day.
//
// It makes no calls. The details are the age of the current or last pass in seconds, and the
// numbers of clinics that fail, that have no connected user, and whose webhooks do not arrive,
// and of missed events that are retried.
func Reconcile(clinics func() reconcile.ClinicsStats, every time.Duration) Check {
	began := time.Now()
	return func(context.Context) Result {
		stats := clinics()
		active := began
		if stats.Taken.After(active) {
			active = stats.Taken
		}
		disconnected, late := 0, false
		for _, one := range stats.Failing {
			if one.Disconnected() {
				disconnected++
			} else {
				late = late || time.Since(one.Since) > failingFor
			}
		}
		result := Result{Status: StatusOK, Details: map[string]any{
			"clinics_failing": len(stats.Failing) - disconnected, "clinics_disconnected": disconnected,
			"clinics_silent": stats.Silent, "events_retried": stats.Retries,
		}}
		if !stats.PassBegan.IsZero() {
			result.Details["pass_seconds"] = int(time.Since(stats.PassBegan).Seconds())
		}
		switch {
		case time.Since(active) > missedIntervals*every:
			result.Status, result.Err = StatusDegraded, errors.New("health: nothing reconciles the environment")
		case stats.Silent > 0:
			result.Status, result.Err = StatusDegraded, errors.New("health: webhooks do not arrive, events come only by reconciliation")
			result.Details["silent_since"] = stats.SilentSince.UTC().Format(time.RFC3339)
		case late:
			result.Status, result.Err = StatusDegraded, errors.New("health: clinics have not been reconciled for a day")
		}
		return result
	}
}
