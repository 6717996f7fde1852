package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
)

// Main runs an example: it starts a fake of the platform and the shop behind the
// router that mount returns, and lets a patient order.
func Main(name string, mount func(webhooks http.Handler) http.Handler) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := Run(ctx, os.Stdout, mount); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Run is Main for a test.
func Run(ctx context.Context, out io.Writer, mount func(webhooks http.Handler) http.Handler) (err error) {
	platform, err := dispensarytest.Start(dispensarytest.WithBehavior(dispensarytest.DeliveryConditionsOff))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	if _, err := platform.Clinics.ActivateKey(platform.ClinicKey()); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "shop")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	shipped := make(chan string, 1)
	settings, err := settingsOf(platform, filepath.Join(folder, "inbox.db"))
	if err != nil {
		return err
	}
	settings.Ship = func(_ context.Context, order events.OrderEvent) error {
		shipped <- order.Data.OrderNumber
		return nil
	}
	shop, err := Open(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close(ctx)) }()
	address, stop, err := serve(ctx, mount(shop.Webhooks))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	return order(ctx, out, platform, address+WebhookPath, shipped)
}

// settingsOf are what the platform's dashboard shows, and a key that a real
// program reads.
func settingsOf(platform *dispensarytest.Server, database string) (Settings, error) {
	key, err := seal.GenerateKey("example")
	if err != nil {
		return Settings{}, err
	}
	keys, err := seal.NewKeyRing(key)
	registered := platform.Application()
	return Settings{
		Environment: platform.Site().Environment,
		Secret:      dispensary.NewSecret(registered.WebhookSecret), Challenge: dispensary.NewSecret(registered.ChallengeToken),
		Database: database, Keys: keys,
	}, err
}

// serve runs a server as a program that receives webhooks needs it: with bounds
// on how long a request may take to arrive.
func serve(ctx context.Context, handler http.Handler) (address string, stop func() error, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with stop
	return "http://" + listener.Addr().String(), func() error { return server.Shutdown(ctx) }, nil
}

// order lets a patient order, and waits until the shop has shipped it.
func order(ctx context.Context, out io.Writer, platform *dispensarytest.Server, address string, shipped <-chan string) error {
	if err := platform.Webhooks.Register(address, model.OrderPlaced); err != nil {
		return err
	}
	placed, event, err := platform.Orders.Place(platform.Patients.All()[0].ID, model.NewOrder{})
	if err != nil {
		return err
	}
	if err := platform.Webhooks.WaitDelivered(ctx, event.ID); err != nil {
		return err
	}
	fmt.Fprintf(out, "order %s was placed, its webhook delivered\n", placed.Number)
	select {
	case number := <-shipped:
		fmt.Fprintf(out, "order %s was shipped\n", number)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
