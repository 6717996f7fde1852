package reconcile_test

import (
	"context"
	"fmt"
	"log"

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
