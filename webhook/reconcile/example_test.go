package reconcile_test

import (
	"context"
	"fmt"
	"log"
	"time"

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
