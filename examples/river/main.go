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
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/examples/scene"
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
