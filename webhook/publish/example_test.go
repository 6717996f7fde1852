package publish_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// Webhooks go through a broker. The example uses an in-memory broker. A real program uses one of
// Watermill's drivers.
func Example() {
	platform, err := dispensarytest.Start(dispensarytest.WithBehavior(behavior.DeliveryConditionsOff))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = platform.Close() }()
	if _, err := platform.Clinics.ActivateKey(platform.ClinicKey()); err != nil {
		log.Fatal(err)
	}
	key, err := seal.GenerateKey("2026") // a real program loads its keys
	if err != nil {
		log.Fatal(err)
	}
	keys, err := seal.NewKeyRing(key)
	if err != nil {
		log.Fatal(err)
	}
	broker := gochannel.NewGoChannel(gochannel.Config{}, nil)

	inbox, err := publish.New(publish.Config{Publisher: broker, Topic: "dispensary", Seal: keys, Order: webhook.ByPatient})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: platform.Site().Environment,
		Secrets:     []dispensary.Secret{dispensary.NewSecret(platform.Application().WebhookSecret)},
		Challenge:   dispensary.NewSecret(platform.Application().ChallengeToken),
		Inbox:       inbox,
	})
	if err != nil {
		log.Fatal(err)
	}

	handled := make(chan string)
	var handlers webhook.Router
	handlers.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		handled <- order.Object.OrderNumber
		return nil
	})
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		log.Fatal(err)
	}
	handle, err := publish.Handler(keys, webhook.Work{Handle: handlers.Dispatch})
	if err != nil {
		log.Fatal(err)
	}
	poison, err := middleware.PoisonQueueWithFilter(publish.DeadLetters(broker), "dispensary_dead", publish.IsDead)
	if err != nil {
		log.Fatal(err)
	}
	retry := middleware.Retry{
		MaxRetries: 4, InitialInterval: time.Second, Multiplier: 2, MaxInterval: 10 * time.Second,
		ShouldRetry: publish.ShouldRetry,
	}
	router.AddConsumerHandler("dispensary", "dispensary", broker, handle).AddMiddleware(poison, retry.Middleware)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { _ = router.Run(ctx) }()
	<-router.Running()

	if err := platform.Webhooks.RegisterHandler(handler); err != nil {
		log.Fatal(err)
	}
	if _, _, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.OrderCreate{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("handled", <-handled)
	// Output: handled R410000004
}
