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

// settings are the values that a real program reads from its configuration.
type settings struct {
	scene.Settings
	pool   *pgxpool.Pool
	schema string                   // of the program's tables
	pack   func(orderNumber string) // the business of this program
}

// inboxSchema is the schema of the inbox and of its River client. No other River client may use it. The
// program's own client uses the program's schema.
func (s settings) inboxSchema() string { return s.schema + "_inbox" }

// receiver is a replica of the program. It receives and handles webhooks, and its River client runs the
// program's own jobs.
type receiver struct {
	http.Handler
	client *river.Client[pgx.Tx]
	inbox  *riverinbox.Inbox
}

func newReceiver(ctx context.Context, s settings) (*receiver, error) {
	client, err := newClient(s)
	if err != nil {
		return nil, err
	}
	r := &receiver{client: client}
	var router webhook.Router
	router.OnOrderPlaced(r.orderPlaced)
	r.inbox, err = riverinbox.Open(ctx, s.pool, riverinbox.Config{
		Work:   webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient, Stale: webhook.StalePolicyReport},
		Seal:   s.Keys,
		Schema: s.inboxSchema(),
	})
	if err != nil {
		return nil, err
	}
	r.Handler, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.Environment,
		Secrets:     []dispensary.Secret{s.Secret},
		Challenge:   s.Challenge,
		Inbox:       r.inbox,
	})
	if err == nil {
		err = r.client.Start(context.WithoutCancel(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, r.inbox.Close(ctx))
	}
	return r, nil
}

// newClient creates the program's own River client.
func newClient(s settings) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[packing]) error {
		s.pack(job.Args.OrderNumber)
		return nil
	}))
	return river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		Schema:  s.schema,
		Logger:  slog.New(slog.DiscardHandler),
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
	})
}

// packing is a job of the program.
type packing struct {
	OrderNumber string `json:"order_number"`
}

// Kind returns the name of these jobs in River.
func (packing) Kind() string { return "packing" }

// orderPlaced writes a row and inserts a job in the transaction that marks the event as handled. So there is
// one of each, even if the event is repeated or a process is killed.
func (r *receiver) orderPlaced(ctx context.Context, order events.OrderEvent) error {
	return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		number := order.Object.OrderNumber
		if _, err := tx.Exec(ctx, "INSERT INTO shipments (order_number) VALUES ($1)", number); err != nil {
			return err
		}
		_, err := r.client.InsertTx(ctx, tx, packing{number}, nil)
		return err
	})
}

// close stops the inbox first, because its handlers insert jobs.
func (r *receiver) close(ctx context.Context) error {
	return errors.Join(r.inbox.Close(ctx), r.client.Stop(ctx))
}
