package health

import (
	"context"
	"errors"
	"time"

	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// missedIntervals is the number of intervals without a run after which the reconciler counts as
// stopped.
const missedIntervals = 3

// failingFor is the time after which a clinic that cannot be reconciled degrades the check.
const failingFor = 24 * time.Hour

// Errors of [Reconcile].
var (
	errNotReconciled = errors.New("health: nothing reconciles the environment")
	errSilent        = errors.New("health: webhooks do not arrive, events come only by reconciliation")
	errClinicsFail   = errors.New("health: clinics have not been reconciled for a day")
)

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
		result := Result{Status: OK, Details: map[string]any{
			"clinics_failing": len(stats.Failing) - disconnected, "clinics_disconnected": disconnected,
			"clinics_silent": stats.Silent, "events_retried": stats.Retries,
		}}
		if !stats.PassBegan.IsZero() {
			result.Details["pass_seconds"] = int(time.Since(stats.PassBegan).Seconds())
		}
		switch {
		case time.Since(active) > missedIntervals*every:
			result.Status, result.Err = Degraded, errNotReconciled
		case stats.Silent > 0:
			result.Status, result.Err = Degraded, errSilent
			result.Details["silent_since"] = stats.SilentSince.UTC().Format(time.RFC3339)
		case late:
			result.Status, result.Err = Degraded, errClinicsFail
		}
		return result
	}
}
