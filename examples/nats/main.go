// Nats receives webhooks with two replicas on NATS JetStream, and nothing else:
//
//	go run ./examples/nats                           # a server at 127.0.0.1:4222
//	NATS_URL=nats://nats:4222 go run ./examples/nats
//
// It starts a fake of the platform, which sends to the first replica and then to the
// second. Both handle what came, whoever took it in; and what the first has left
// when it is stopped, the second handles. What a real receiver does stands in
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
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout, cmp.Or(os.Getenv("NATS_URL"), "nats://127.0.0.1:4222"), "dispensary_example"); err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

// run sets the scene and tells the story. The name is that of everything in NATS.
func run(ctx context.Context, out io.Writer, url, name string) (err error) {
	platform, err := dispensarytest.Start(dispensarytest.WithUnconditionalDelivery())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	handled := make(chan string, 100)
	settings, err := settingsOf(platform, url, name, handled)
	if err != nil {
		return err
	}
	first, err := newReceiver(ctx, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.close(ctx)) }()
	second, err := newReceiver(ctx, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.close(ctx)) }()

	placed := map[string]bool{}
	for _, replica := range []*receiver{first, second} {
		if err := platform.RegisterWebhookHandler(replica); err != nil {
			return err
		}
		if err := place(ctx, platform, placed); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, len(placed), "orders were acknowledged")
	if err := first.close(ctx); err != nil {
		return err
	}
	for len(placed) > 0 {
		select {
		case order := <-handled:
			delete(placed, order)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fmt.Fprintln(out, "all of them were handled")
	return nil
}

// place has a patient order five times, and waits until that has arrived.
func place(ctx context.Context, platform *dispensarytest.Server, placed map[string]bool) error {
	people := platform.Platform()
	for range 5 {
		order, event, err := people.PlaceOrder(people.Patients()[0].ID, dispensarytest.NewOrder{})
		if err != nil {
			return err
		}
		if err := platform.WaitDelivered(ctx, event.ID); err != nil {
			return err
		}
		placed[order.Number] = true
	}
	return nil
}

// settingsOf makes the settings of both replicas.
func settingsOf(platform *dispensarytest.Server, url, name string, handled chan<- string) (settings, error) {
	key, err := seal.GenerateKey("example") // a real program reads its keys
	if err != nil {
		return settings{}, err
	}
	keys, err := seal.NewKeyRing(key)
	application := platform.Application()
	return settings{
		url:         url,
		name:        name,
		environment: platform.Site().Environment,
		secret:      dispensary.Secret(application.WebhookSecret),
		challenge:   dispensary.Secret(application.ChallengeToken),
		keys:        keys,
		handle: func(_ context.Context, order events.OrderEvent) error {
			handled <- order.Data.OrderNumber
			return nil
		},
	}, err
}
