// Nats publishes webhooks to NATS JetStream with two replicas of a program, and handles
// them in both:
//
//	go run ./examples/nats                           # a server at 127.0.0.1:4222
//	NATS_URL=nats://nats:4222 go run ./examples/nats
//
// It starts a fake of the platform, which sends to the first replica and then to the
// second. What the first has left when it is stopped, the second handles; and an order
// that cannot be handled becomes a dead letter. What a real receiver does stands in
// receiver.go.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222")
	if err := run(ctx, os.Stdout, address, "dispensary_example"); err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

// run starts the platform and plays the example. Everything in NATS begins with name.
func run(ctx context.Context, out io.Writer, address, name string) (err error) {
	platform, err := dispensarytest.Start(dispensarytest.WithBehavior(dispensarytest.DeliveryConditionsOff))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	if _, err := platform.Clinics.ActivateKey(platform.ClinicKey()); err != nil {
		return err
	}
	handled := make(chan string, 100)
	settings, err := settingsOf(platform, address, name, handled)
	if err != nil {
		return err
	}
	first, err := newReceiver(ctx, settings)
	if err != nil {
		return err
	}
	second, err := newReceiver(ctx, settings)
	if err != nil {
		return errors.Join(err, first.close())
	}
	defer func() { err = errors.Join(err, second.close()) }()

	placed := map[string]bool{}
	for _, replica := range []*receiver{first, second} {
		if err := errors.Join(platform.Webhooks.RegisterHandler(replica), place(ctx, platform, placed)); err != nil {
			return errors.Join(err, first.close())
		}
	}
	fmt.Fprintln(out, len(placed), "orders were published, and acknowledged")
	if err := first.close(); err != nil {
		return err
	}
	for len(placed) > 1 {
		select {
		case order := <-handled:
			delete(placed, order)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Fprintln(out, "all but one were handled")
	dead, err := second.deadLetter(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "that is a dead letter:", dead)
	return nil
}

// place has a patient order five times, and waits until that has arrived.
func place(ctx context.Context, platform *dispensarytest.Server, placed map[string]bool) error {
	people := platform
	for range 5 {
		order, event, err := people.Orders.Place(people.Patients.All()[0].ID, model.NewOrder{})
		if err != nil {
			return err
		}
		if err := platform.Webhooks.WaitDelivered(ctx, event.ID); err != nil {
			return err
		}
		placed[order.Number] = true
	}
	return nil
}

// settingsOf makes the settings of both replicas.
func settingsOf(platform *dispensarytest.Server, address, name string, handled chan<- string) (settings, error) {
	key, err := seal.GenerateKey("example") // a real program reads its keys
	if err != nil {
		return settings{}, err
	}
	keys, err := seal.NewKeyRing(key)
	application := platform.Application()
	refused := "R410000008" // the fifth order
	return settings{
		address:     address,
		name:        name,
		environment: platform.Site().Environment,
		secret:      dispensary.NewSecret(application.WebhookSecret),
		challenge:   dispensary.NewSecret(application.ChallengeToken),
		keys:        keys,
		handle: func(_ context.Context, order events.OrderEvent) error {
			if order.Data.OrderNumber == refused {
				return webhook.Permanent(webhook.WithReason("no_warehouse", errors.New("no such warehouse")))
			}
			handled <- order.Data.OrderNumber
			return nil
		},
	}, err
}
