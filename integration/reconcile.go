package integration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// openClinics returns the reconciler of an environment. Each pass reads the clinics from the
// store, so it includes users who connected since. It calls as any connected user of a clinic.
func (i *Integration) openClinics(environment dispensary.Environment) (*reconcile.Clinics, error) {
	c := i.setup.Reconcile
	c.Environment, c.Inbox = environment, i.events
	c.List = func(ctx context.Context, after string, limit int) ([]string, error) {
		return i.Accounts.Clinics(ctx, environment, after, limit)
	}
	c.Open = func(ctx context.Context, clinicID string, budget api.Limiter) (reconcile.Clinic, error) {
		clinic, err := i.Accounts.ForClinic(ctx, environment, clinicID, accounts.ClinicOptions{Limiter: budget})
		if err != nil {
			return reconcile.Clinic{}, err
		}
		return reconcile.Clinic{Events: clinic.Client.Events, Integrations: clinic.Integrations}, nil
	}
	observe := c.Observer.RunEnd
	c.Observer.RunEnd = func(ctx context.Context, report reconcile.Report, err error) {
		i.Operations.RunEnd(ctx, report, err)
		if observe != nil {
			observe(ctx, report, err)
		}
	}
	if c.Logger == nil {
		c.Logger = i.setup.Logger
	}
	if i.setup.Telemetry != nil {
		c = i.setup.Telemetry.Reconcile(c)
	}
	return reconcile.New(c)
}

// reconcile runs the loop of an environment until ctx ends.
func (i *Integration) reconcile(ctx context.Context, clinics *reconcile.Clinics) {
	if at, _ := parseAddress(i.config.Inbox, true); !at.driver.Shared {
		// No other process uses the inbox, so webhooks may be missing since the last one ended.
		clinics.Trigger()
	}
	_ = clinics.Loop(ctx, i.setup.ReconcileEvery) // Loop fails only with the end of ctx
}

// newAlarm returns the alarm of an environment. clinics is nil if reconciling is disabled.
func (i *Integration) newAlarm(environment dispensary.Environment, clinics *reconcile.Clinics) (*webhook.Alarm, error) {
	return webhook.NewAlarm(webhook.AlarmConfig{
		Now: i.setup.Webhooks.Now,
		Notify: func(ctx context.Context, outage webhook.Outage) {
			i.logger().WarnContext(ctx, "webhooks fail", "environment", environment.String(), "kind", string(outage.Kind),
				"over", outage.Over, "confirmed", outage.Confirmed, "failures", outage.Failures, "age", outage.Age())
			if clinics != nil {
				clinics.RunAfterOutage(outage)
			}
			if i.setup.Outage != nil {
				i.setup.Outage(ctx, environment, outage)
			}
		},
		Confirm: func(ctx context.Context, _ string, since time.Time) (bool, error) {
			return i.confirmOutage(ctx, environment, since)
		},
	})
}

const (
	// confirmClinics is the largest number of clinics to check for the confirmation of an outage.
	confirmClinics = 20

	// confirmSkew is the tolerated difference between the clocks of this machine and the platform
	// in the confirmation of an outage.
	confirmSkew = time.Minute
)

// confirmOutage reports whether a webhook delivery has failed since a time. It reads the delivery
// logs of up to 20 clinics, as any of their connected users. If no log has a failed delivery, it
// returns an error if a log could not be read or if there are more clinics. False is no proof that
// deliveries work: a clinic without a connected user may be missing in the store.
func (i *Integration) confirmOutage(ctx context.Context, environment dispensary.Environment, since time.Time) (bool, error) {
	ctx = apikit.WithPriority(ctx, api.PriorityReconcile)
	ids, err := i.Accounts.Clinics(ctx, environment, "", confirmClinics+1)
	if err != nil {
		return false, err
	}
	var problems []error
	if len(ids) == 0 {
		problems = append(problems, errors.New("integration: no connected user to read the delivery log"))
	}
	if len(ids) > confirmClinics {
		ids = ids[:confirmClinics]
		problems = append(problems, fmt.Errorf("integration: checked the delivery logs of only %d clinics", confirmClinics))
	}
	for _, id := range ids {
		failed, err := i.deliveryFailed(ctx, environment, id, since.Add(-confirmSkew))
		if failed {
			return true, nil
		}
		problems = append(problems, err)
	}
	return false, errors.Join(problems...)
}

// deliveryFailed reports whether the delivery log of a clinic has a failed attempt since a time.
func (i *Integration) deliveryFailed(ctx context.Context, environment dispensary.Environment, clinicID string, since time.Time) (bool, error) {
	clinic, err := i.Accounts.ForClinic(ctx, environment, clinicID, accounts.ClinicOptions{})
	if err != nil {
		return false, err
	}
	page, err := clinic.Client.Events.Deliveries.List(events.DeliveryListOptions{
		Outcome: events.DeliveryOutcomeUndelivered, SortBy: events.DeliverySortAttempt, SortOrder: api.SortOrderDescending,
	}).Page(ctx)
	if err != nil {
		return false, err
	}
	for _, d := range page.Items {
		if !d.SuccessfullyDelivered && d.AttemptedAt.After(since) {
			return true, nil
		}
	}
	return false, nil
}
