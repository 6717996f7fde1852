package reconcile_test

import (
	"context"
	"log"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/ratelimit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// One loop reconciles the clinics of all users every hour, with at most 1,000 calls in 5
// minutes. It also runs when an alarm reports the end of an outage. Set the alarm's Observe
// method in webhook.HandlerConfig.
func ExampleClinics_Loop() {
	start := func(ctx context.Context, users *accounts.Accounts, environment dispensary.Environment, inbox reconcile.Inbox) (*webhook.Alarm, error) {
		budget, err := ratelimit.New(1000, 5*time.Minute)
		if err != nil {
			return nil, err
		}
		clinics, err := reconcile.New(reconcile.Config{
			Environment: environment,
			Inbox:       inbox,
			List: func(ctx context.Context, after string, limit int) ([]string, error) {
				return users.Clinics(ctx, environment, after, limit)
			},
			Open: func(ctx context.Context, clinicID string, budget api.Limiter) (reconcile.Clinic, error) {
				clinic, err := users.ForClinic(ctx, environment, clinicID, accounts.ClinicOptions{Limiter: budget})
				if err != nil {
					return reconcile.Clinic{}, err
				}
				return reconcile.Clinic{Events: clinic.Client.Events, Integrations: clinic.Integrations}, nil
			},
			Budget: budget,
			Logger: slog.Default(),
		})
		if err != nil {
			return nil, err
		}
		go func() { _ = clinics.Loop(ctx, time.Hour) }()
		return webhook.NewAlarm(webhook.AlarmConfig{Notify: func(_ context.Context, o webhook.Outage) {
			log.Printf("webhooks have failed since %s, over: %t", o.Since, o.Over)
			clinics.RunAfterOutage(o)
		}})
	}
	_ = start
}
