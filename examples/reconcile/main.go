// Reconcile loses no webhook, although its address is switched off for a day:
//
//	go run ./examples/reconcile
//
// It starts a fake of the platform, whose clock it moves, and lets a receiver
// fail until the platform gives it up. What a real receiver does stands in
// receiver.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout, slog.New(slog.DiscardHandler)); err != nil {
		fmt.Fprintln(os.Stderr, "reconcile:", err)
		os.Exit(1)
	}
}

// connected makes a platform on which the application is in use already.
var connected = dispensarytest.WithBehavior(dispensarytest.IntegrationActivationFromTheStart)

// run starts the platform and plays the example.
func run(ctx context.Context, out io.Writer, logger *slog.Logger) (err error) {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC))
	platform, err := dispensarytest.Start(dispensarytest.WithClock(clock), connected)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	folder, err := os.MkdirTemp("", "reconcile")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()

	s := &story{platform: platform, out: out, handled: make(chan string, 100), reports: make(chan reconcile.Report, 10)}
	settings, err := s.settings(filepath.Join(folder, "inbox.db"), logger)
	if err != nil {
		return err
	}
	receiver, err := newReceiver(settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, receiver.close(ctx)) }()
	if err := s.report(ctx); err != nil { // of the run at the start
		return err
	}
	return s.tell(ctx, receiver)
}

// story is what happens between the platform and the receiver.
type story struct {
	platform *dispensarytest.Server
	out      io.Writer
	broken   atomic.Bool
	handled  chan string
	reports  chan reconcile.Report
}

func (s *story) settings(database string, logger *slog.Logger) (settings, error) {
	key, err := seal.GenerateKey("example") // a real program reads its keys
	if err != nil {
		return settings{}, err
	}
	keys, err := seal.NewKeyRing(key)
	if err != nil {
		return settings{}, err
	}
	application := s.platform.Application()
	return settings{
		site:      s.platform.Site(),
		client:    s.platform.Client(model.User{}, dispensary.WithTokenSource(s)),
		clinic:    s.platform.Clinics.All()[0].ID,
		secret:    dispensary.NewSecret(application.WebhookSecret),
		challenge: dispensary.NewSecret(application.ChallengeToken),
		database:  database,
		keys:      keys,
		logger:    logger,
		now:       s.platform.Clock().Now,
		handle: func(_ context.Context, order events.OrderEvent) error {
			s.handled <- order.Data.OrderNumber
			return nil
		},
		observed: func(_ context.Context, report reconcile.Report, _ error) { s.reports <- report },
	}, nil
}

// Token makes the story a source of tokens that are never old, as that of a
// connected user is; see the connect example.
func (s *story) Token(ctx context.Context) (dispensary.AccessToken, error) {
	return s.platform.TokenSource(model.User{}).Token(ctx)
}

func (s *story) tell(ctx context.Context, receiver http.Handler) error {
	err := s.platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.broken.Load() {
			r.Body = http.NoBody // as a middleware would that reads the body
		}
		receiver.ServeHTTP(w, r)
	}))
	if err != nil {
		return err
	}
	if err := s.orders(ctx, 2, time.Minute); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "2 orders arrived by webhook")

	s.broken.Store(true)
	for n := 0; ; n++ {
		if err := s.place(time.Hour); err != nil {
			return err
		}
		if endpoint, _ := s.platform.Webhooks.Endpoint(); endpoint.Disabled {
			fmt.Fprintf(s.out, "%d orders were refused, and then the address was switched off: %s\n", n+1, endpoint.Reason)
			break
		}
	}
	for range 5 {
		if err := s.place(5 * time.Hour); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.out, "5 orders were not sent at all")

	s.broken.Store(false)
	if err := s.platform.Webhooks.Enable(); err != nil {
		return err
	}
	if err := s.orders(ctx, 1, time.Minute); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "1 order arrived by webhook, after the repair")
	return s.report(ctx)
}

// place lets a patient order, and time pass.
func (s *story) place(pause time.Duration) error {
	patient := s.platform.Patients.All()[0].ID
	_, _, err := s.platform.Orders.Place(patient, model.NewOrder{})
	s.platform.Clock().Advance(pause)
	return err
}

// orders places orders that arrive.
func (s *story) orders(ctx context.Context, n int, pause time.Duration) error {
	for range n {
		if err := s.place(pause); err != nil {
			return err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until an order has been handled.
func (s *story) wait(ctx context.Context) error {
	select {
	case <-s.handled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// report waits for the next run of the reconciler, and for what it recovered.
func (s *story) report(ctx context.Context) error {
	select {
	case report := <-s.reports:
		fmt.Fprintln(s.out, report)
		for range report.Recovered {
			if err := s.wait(ctx); err != nil {
				return err
			}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
