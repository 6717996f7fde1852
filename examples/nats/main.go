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

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/scene"
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
	platform, dashboard, err := scene.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	handled := make(chan string, 100)
	settings := settings{Settings: dashboard, address: address, name: name, handle: func(_ context.Context, order events.OrderEvent) error {
		if order.Object.OrderNumber == "R410000008" { // the fifth order
			return webhook.Permanent(webhook.WithReason("no_warehouse", errors.New("no such warehouse")))
		}
		handled <- order.Object.OrderNumber
		return nil
	}}
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
		if err := errors.Join(platform.Webhooks.RegisterHandler(replica), scene.Orders(ctx, platform, placed)); err != nil {
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
