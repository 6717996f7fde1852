// River receives webhooks with two replicas of a program that also runs its own River jobs on PostgreSQL:
//
//	DATABASE_URL=postgres://… go run ./examples/river
//
// It creates the schemas dispensary_example for the program and dispensary_example_inbox for the inbox, and
// drops them at the end. It starts a fake platform, which sends events to the first replica and then to the
// second. Each order is packed once, by any replica, even if the first replica stops before it packs the
// order. receiver.go contains the code of a real receiver.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/scene"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := cmp.Or(os.Getenv("DATABASE_URL"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	if err := run(ctx, os.Stdout, address, "dispensary_example"); err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

// run starts the platform and runs the example. schema contains the program's tables.
func run(ctx context.Context, out io.Writer, address, schema string) (err error) {
	pool, err := newPool(ctx, address, schema)
	if err != nil {
		return err
	}
	defer pool.Close()
	packed := make(chan string, 100)
	settings := settings{pool: pool, schema: schema, pack: func(orderNumber string) { packed <- orderNumber }}
	defer func() {
		_, dropped := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+", "+settings.inboxSchema()+" CASCADE")
		err = errors.Join(err, dropped)
	}()
	platform, dashboard, err := scene.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	settings.Settings = dashboard
	if err := migrate(ctx, settings); err != nil {
		return err
	}
	return tell(ctx, out, platform, settings, packed)
}

// newPool connects with schema first in the search path.
func newPool(ctx context.Context, address, schema string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema
	config.MaxConns = 20 // for the workers and listeners of two replicas
	return pgxpool.NewWithConfig(ctx, config)
}

// migrate creates the tables, as a deployment does before its replicas start. The inbox creates its own tables.
func migrate(ctx context.Context, s settings) error {
	if _, err := s.pool.Exec(ctx, "CREATE SCHEMA "+s.schema); err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "CREATE TABLE shipments (order_number text NOT NULL)"); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(s.pool), &rivermigrate.Config{Schema: s.schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func tell(ctx context.Context, out io.Writer, platform *dispensarytest.Server, s settings, packed <-chan string) (err error) {
	first, err := newReceiver(ctx, s)
	if err != nil {
		return err
	}
	second, err := newReceiver(ctx, s)
	if err != nil {
		return errors.Join(err, first.close(ctx))
	}
	defer func() { err = errors.Join(err, second.close(ctx)) }()
	placed := map[string]bool{}
	for _, replica := range []*receiver{first, second} {
		if err := errors.Join(platform.Webhooks.RegisterHandler(replica), scene.Orders(ctx, platform, placed)); err != nil {
			return errors.Join(err, first.close(ctx))
		}
	}
	fmt.Fprintln(out, len(placed), "orders were acknowledged")
	if err := first.close(ctx); err != nil {
		return err
	}
	for len(placed) > 0 {
		select {
		case order := <-packed:
			delete(placed, order)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var shipments int
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM shipments").Scan(&shipments)
	fmt.Fprintln(out, "all of them were packed, for", shipments, "shipments")
	return err
}

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
