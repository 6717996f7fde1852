package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/scene"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// settings are what a program like this reads when it starts.
type settings struct {
	scene.Settings
	pool   *pgxpool.Pool
	tables riverinbox.Tables
	pack   func(orderNumber string) // the business of this program
}

// receiver is a replica of the program: it receives webhooks, and its River client
// works both the events and the program's own jobs.
type receiver struct {
	http.Handler
	inbox  *riverinbox.Inbox
	client *river.Client[pgx.Tx]
}

func newReceiver(ctx context.Context, s settings) (*receiver, error) {
	var router webhook.Router
	router.OnOrderPlaced(orderPlaced)
	inbox, err := riverinbox.New(ctx, s.pool, riverinbox.Config{
		Work:   webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient, Stale: webhook.StaleReport},
		Seal:   s.Keys,
		Tables: s.tables,
	})
	if err != nil {
		return nil, err
	}
	config := &river.Config{
		Schema:  s.tables.River,
		Logger:  slog.New(slog.DiscardHandler),
		Workers: river.NewWorkers(),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
	}
	river.AddWorker(config.Workers, river.WorkFunc(func(_ context.Context, job *river.Job[packing]) error {
		s.pack(job.Args.OrderNumber)
		return nil
	}))
	r := &receiver{inbox: inbox}
	if err := r.start(ctx, s, config); err != nil {
		return nil, errors.Join(err, r.close(ctx))
	}
	return r, nil
}

func (r *receiver) start(ctx context.Context, s settings, config *river.Config) (err error) {
	if err := r.inbox.AddTo(config); err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(s.pool), config)
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	r.client = client
	r.Handler, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.Environment,
		Secrets:     []dispensary.Secret{s.Secret},
		Challenge:   s.Challenge,
		Inbox:       r.inbox,
	})
	return err
}

// packing is a job of the program's own.
type packing struct {
	OrderNumber string `json:"order_number"`
}

// Kind is how River calls these jobs.
func (packing) Kind() string { return "packing" }

// orderPlaced writes a row and inserts a job, in the transaction that notes the
// event as handled. However often the event is sent, and wherever a process ends,
// there is one of each.
func orderPlaced(ctx context.Context, order events.OrderEvent) error {
	return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		number := order.Data.OrderNumber
		if _, err := tx.Exec(ctx, "INSERT INTO shipments (order_number) VALUES ($1)", number); err != nil {
			return err
		}
		_, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, packing{number}, nil)
		return err
	})
}

// close stops the client first, whose jobs need the inbox.
func (r *receiver) close(ctx context.Context) error {
	var err error
	if r.client != nil {
		err = r.client.Stop(ctx)
	}
	return errors.Join(err, r.inbox.Close(ctx))
}
