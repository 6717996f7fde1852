package integration

import (
	"context"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// openClinics returns the reconciler of an environment. Its clinics are those of the store at
// each pass, so it includes users that connect later. It calls as any connected user of a
// clinic.
func (i *Integration) openClinics(environment dispensary.Environment) (*reconcile.Clinics, error) {
	c := i.setup.Reconcile
	c.Environment, c.Inbox = environment, i.events
	c.List = func(ctx context.Context, after string, limit int) ([]string, error) {
		return i.Accounts.Clinics(ctx, environment, after, limit)
	}
	c.Open = func(ctx context.Context, clinicID string, budget dispensary.Limiter) (reconcile.Clinic, error) {
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
	return reconcile.New(c)
}

// reconcile runs the loop of an environment until ctx ends.
func (i *Integration) reconcile(ctx context.Context, clinics *reconcile.Clinics) {
	if at, _ := parseAddress(i.config.Inbox, []kind{postgres, sqlite, memory}); at.kind != postgres {
		// No other process uses the inbox, so webhooks may have been missed since it ended.
		clinics.Trigger()
	}
	_ = clinics.Loop(ctx, i.setup.ReconcileEvery) // the error is the end of ctx
}
