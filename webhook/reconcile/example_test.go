package reconcile_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/accounts"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/memoryinbox"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// One run that recovers what was missed while there was no webhook address. The
// handler cannot tell it from a webhook.
func ExampleReconciler_Run() {
	platform, err := dispensarytest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	patient := platform.Patients.All()[0]
	if _, _, err := platform.Orders.Place(patient.ID, model.NewOrder{}); err != nil {
		log.Fatal(err)
	}

	handled := make(chan string)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		handled <- order.Data.OrderNumber
		return nil
	})
	inbox, err := memoryinbox.New(memoryinbox.Config{Work: webhook.Work{Handle: router.Dispatch}})
	if err != nil {
		log.Fatal(err)
	}
	client := platform.Client(platform.Users()[0])
	reconciler, err := reconcile.New(reconcile.Config{
		Environment: platform.Site().Environment,
		Events:      client.Events,
		Inbox:       inbox,
		Integrations: func(ctx context.Context) ([]string, error) {
			clinic, err := client.Clinic.Get(ctx)
			if err != nil {
				return nil, err
			}
			return []string{clinic.IntegrationID}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	report, err := reconciler.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report)
	fmt.Println("handled", <-handled)
	// Output:
	// recovered 1 of 1 missed; pages: 6, reads: 1
	// handled R410000004
}

// A program without a scheduler reconciles in a goroutine: when it starts, every
// hour, and as soon as an alarm says that an outage is over. The alarm's Observe
// method is given to webhook.HandlerConfig.
func ExampleReconciler_Loop() {
	start := func(ctx context.Context, config reconcile.Config) (*webhook.Alarm, error) {
		reconciler, err := reconcile.New(config)
		if err != nil {
			return nil, err
		}
		go func() {
			if err := reconciler.Loop(ctx, time.Hour); ctx.Err() == nil {
				log.Print(err)
			}
		}()
		return webhook.NewAlarm(webhook.AlarmConfig{Notify: func(_ context.Context, o webhook.Outage) {
			log.Printf("webhooks have failed since %s, over: %t", o.Since, o.Over)
			reconciler.RunAfterOutage(o)
		}})
	}
	_ = start
}

// One loop reconciles the clinics of all users, an hour apart, with at most 1,000 of the
// calls that the platform takes in five minutes. The users are those of accounts, which
// knows the clinics and who may call for each.
func ExampleClinics() {
	start := func(ctx context.Context, users *accounts.Accounts, environment dispensary.Environment, inbox reconcile.Inbox) (*reconcile.Clinics, error) {
		budget, err := dispensary.NewRateLimiter(1000, 5*time.Minute)
		if err != nil {
			return nil, err
		}
		all, err := reconcile.NewClinics(reconcile.ClinicsConfig{
			Config: reconcile.Config{Environment: environment, Inbox: inbox, Logger: slog.Default()},
			Budget: budget,
			List: func(ctx context.Context, after string, limit int) ([]string, error) {
				return users.Clinics(ctx, environment, after, limit)
			},
			Open: func(ctx context.Context, clinicID string, budget dispensary.Limiter) (reconcile.Clinic, error) {
				clinic, err := users.ForClinic(ctx, environment, clinicID, accounts.ClinicOptions{Limiter: budget})
				if err != nil {
					return reconcile.Clinic{}, err
				}
				return reconcile.Clinic{Events: clinic.Client.Events, Integrations: clinic.Integrations}, nil
			},
		})
		if err != nil {
			return nil, err
		}
		go func() { _ = all.Loop(ctx, time.Hour) }()
		return all, nil
	}
	_ = start
}
