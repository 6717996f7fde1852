package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Store returns a check of a token store. It is failing if the store does not accept writes. It is
// degraded if the store does not respond in time.
func Store(store tokenstore.Store) Check {
	return func(ctx context.Context) Result {
		if err := store.CheckWrite(ctx); err != nil {
			return unusable(ctx, err)
		}
		return Result{Status: StatusOK}
	}
}

// unusable returns the result of a check of a store with an error. A store that only responds too
// late, or whose pool has no free connection, has this problem in all replicas: see the package
// comment.
func unusable(ctx context.Context, err error) Result {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Result{Status: StatusDegraded, Err: fmt.Errorf("health: store or inbox does not respond in time: %w", err)}
	}
	return Result{Status: StatusFailing, Err: err}
}

// Inbox returns a check of an inbox. It is failing if the inbox cannot store events or cannot
// be read. The details are the [engine.Stats]. The check is degraded
//
//   - if the oldest event has waited longer than limit, because handlers are too slow or
//     fail. By default a failing event is retried for about ten hours, see
//     [webhook.RetryPolicy],
//   - if handlers run longer than their timeout and block their workers,
//   - if the inbox does not respond in time, because the database is slow or the program uses
//     all connections of its pool.
func Inbox(inbox engine.Engine, limit time.Duration) Check {
	return func(ctx context.Context) Result {
		if err := inbox.CheckWrite(ctx); err != nil {
			return unusable(ctx, err)
		}
		stats, err := inbox.Stats(ctx)
		if err != nil {
			return unusable(ctx, err)
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
			result.Status, result.Err = StatusDegraded, errors.New("health: oldest event has waited longer than "+limit.String())
		}
		if stats.Overdue > 0 {
			result.Status, result.Err = StatusDegraded, errors.New("health: handlers run longer than their timeout and block their workers")
		}
		return result
	}
}

// Alarm returns a check that is degraded during an outage of webhooks. The details are the number
// of outages, and the kind, start and number of failures of the oldest. For
// [webhook.OutageKindRejecting] the number of failures is omitted: it includes requests of
// strangers, and strangers may read the response. Only the logged error names the tenant.
func Alarm(alarm *webhook.Alarm) Check {
	return func(context.Context) Result {
		outages, _ := alarm.Outages()
		if len(outages) == 0 {
			return Result{Status: StatusOK}
		}
		oldest := outages[0]
		result := Result{Status: StatusDegraded, Err: oldest.Reason, Details: map[string]any{
			"outages": len(outages), "kind": string(oldest.Kind), "since": oldest.Since.UTC().Format(time.RFC3339),
		}}
		if oldest.Tenant != "" {
			result.Err = fmt.Errorf("tenant %s: %w", oldest.Tenant, oldest.Reason)
		}
		if oldest.Kind != webhook.OutageKindRejecting {
			result.Details["failures"] = oldest.Failures
		}
		return result
	}
}

// TokenRefresh returns a check of token refreshes. It is degraded in two cases:
//
//   - The background refresh is paused, because the platform rejects the application or the
//     tokens of many users.
//   - The store does not accept refreshed tokens. Do not stop the process then, because
//     these tokens exist only in its memory.
//
// The details are the number of unstored tokens, and the end of the pause.
func TokenRefresh(conns *tokens.Connections) Check {
	return func(context.Context) Result {
		pending := conns.PendingCommits()
		result := Result{Status: StatusOK, Details: map[string]any{"pending_commits": pending}}
		if pending > 0 {
			result.Status, result.Err = StatusDegraded, errors.New("health: store does not accept refreshed tokens")
		}
		if until, paused := conns.Paused(); paused {
			result.Status, result.Err = StatusDegraded, errors.New("health: background token refresh is paused")
			result.Details["paused_until"] = until.UTC().Format(time.RFC3339)
		}
		return result
	}
}

// missedIntervals is the number of intervals without a run until reconciliation counts as
// stopped.
const missedIntervals = 3

// failingFor is the time until a failing clinic degrades the check.
const failingFor = 24 * time.Hour

// Reconcile returns a check of the search for missed webhooks. clinics is
// [reconcile.Clinics.Stats], and every is the interval of its loop. The check is degraded
//
//   - if no replica has reconciled for three intervals, counted from the call of Reconcile
//     at the earliest,
//   - if events of a clinic arrive only by reconciliation, because the platform may have
//     disabled the endpoint,
//   - if reconciliation of a clinic with a connected user has failed for a day.
//
// It makes no calls. The details are the age of the current or last pass in seconds, and the
// numbers of failing clinics, clinics without a connected user, clinics without webhooks, and
// missed events in retry.
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
			"clinics_without_webhooks": stats.NoWebhooks, "events_retried": stats.Retries,
		}}
		if !stats.PassBegan.IsZero() {
			result.Details["pass_seconds"] = int(time.Since(stats.PassBegan).Seconds())
		}
		switch {
		case time.Since(active) > missedIntervals*every:
			result.Status, result.Err = StatusDegraded, errors.New("health: no replica reconciles the environment")
		case stats.NoWebhooks > 0:
			result.Status, result.Err = StatusDegraded, errors.New("health: webhooks do not arrive, events arrive only by reconciliation")
			result.Details["without_webhooks_since"] = stats.NoWebhooksSince.UTC().Format(time.RFC3339)
		case late:
			result.Status, result.Err = StatusDegraded, errors.New("health: clinics have not been reconciled for a day")
		}
		return result
	}
}
