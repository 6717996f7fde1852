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
func ExampleClinics_Run() {
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
	clinic, err := client.Clinic.Get(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	clinics, err := reconcile.New(reconcile.Config{
		Environment: platform.Site().Environment,
		Inbox:       inbox,
		List:        reconcile.ClinicIDs(clinic.ID),
		Open: func(context.Context, string, dispensary.Limiter) (reconcile.Clinic, error) {
			return reconcile.Clinic{Events: client.Events, Integrations: reconcile.Integrations(clinic.IntegrationID)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	report, err := clinics.Run(context.Background(), clinic.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report)
	fmt.Println("handled", <-handled)
	// Output:
	// recovered 1 of 1 missed; pages: 6, reads: 1
	// handled R410000004
}

// One loop reconciles the clinics of all users, an hour apart, with at most 1,000 of the calls
// that the platform accepts in 5 minutes. It runs at once when an alarm reports the end of an
// outage. The alarm's Observe method belongs into webhook.HandlerConfig.
func ExampleClinics_Loop() {
	start := func(ctx context.Context, users *accounts.Accounts, environment dispensary.Environment, inbox reconcile.Inbox) (*webhook.Alarm, error) {
		budget, err := dispensary.NewRateLimiter(1000, 5*time.Minute)
		if err != nil {
			return nil, err
		}
		clinics, err := reconcile.New(reconcile.Config{
			Environment: environment,
			Inbox:       inbox,
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
