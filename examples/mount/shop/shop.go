// Package shop is the program of the examples next to it. It ships the orders of patients and has an inbox in
// a file. The examples differ only in their routers.
package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/scene"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// WebhookPath is the path of the webhook handler.
const WebhookPath = "/dispensary/webhooks"

// Settings is the configuration of a shop.
type Settings struct {
	scene.Settings
	Database string       // a file
	Logger   *slog.Logger // nil disables logging

	// AcceptTimeout is the time limit for storing an event. 0 means the default of package webhook.
	AcceptTimeout time.Duration

	// Ship ships an order.
	Ship func(context.Context, events.OrderEvent) error
}

// Shop is the program without its router.
type Shop struct {
	// Webhooks is the webhook handler to mount.
	Webhooks http.Handler

	inbox *sqlinbox.Inbox
}

// Open opens the inbox. Its workers start with the events of the last run.
func Open(s Settings) (*Shop, error) {
	var router webhook.Router
	router.OnOrderPlaced(s.Ship)
	inbox, err := sqlinbox.Open(s.Database, sqlinbox.Config{
		Work: webhook.Work{Handle: router.Dispatch, Logger: s.Logger},
		Seal: s.Keys,
	})
	if err != nil {
		return nil, err
	}
	webhooks, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.Environment,
		Secrets:     []dispensary.Secret{s.Secret},
		Challenge:   s.Challenge,
		Inbox:       inbox,
		Logger:      s.Logger,

		AcceptTimeout: s.AcceptTimeout,
	})
	if err != nil {
		return nil, errors.Join(err, inbox.Close(context.Background()))
	}
	return &Shop{Webhooks: webhooks, inbox: inbox}, nil
}

// Close waits for shipments in progress. Stop the server first.
func (s *Shop) Close(ctx context.Context) error { return s.inbox.Close(ctx) }

// Main runs an example. It starts a fake platform and the shop behind the router from mount, and a patient
// places an order.
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
	platform, settings, err := scene.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	folder, err := os.MkdirTemp("", "shop")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	shipped := make(chan string, 1)
	shop, err := Open(Settings{
		Settings: settings, Database: filepath.Join(folder, "inbox.db"),
		Ship: func(_ context.Context, order events.OrderEvent) error {
			shipped <- order.Object.OrderNumber
			return nil
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close(ctx)) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	// Limit the time to read a request.
	server := &http.Server{Handler: mount(shop.Webhooks), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // returns after Shutdown
	defer func() { err = errors.Join(err, server.Shutdown(ctx)) }()
	if err := platform.Webhooks.Register("http://"+listener.Addr().String()+WebhookPath, model.EventOrderPlaced); err != nil {
		return err
	}
	placed, err := scene.Order(ctx, platform)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "order %s was placed, its webhook delivered\n", placed)
	select {
	case number := <-shipped:
		fmt.Fprintf(out, "order %s was shipped\n", number)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
