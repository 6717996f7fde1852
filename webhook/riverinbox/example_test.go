package riverinbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// The inbox handles the events of each patient in order with any number of replicas. Pass it
// to a webhook.Handler.
func ExampleOpen() {
	const workers = 8
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = workers + 3 // Open rejects a smaller pool
	ctx := context.Background()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	ring, err := seal.ParseKeyRing(api.NewSecret(os.Getenv("INBOX_KEYS"))) // 2026:…, made with openssl rand -base64 32
	if err != nil {
		log.Fatal(err)
	}
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		fmt.Println("order", order.Object.OrderNumber)
		return nil
	})
	inbox, err := riverinbox.Open(ctx, pool, riverinbox.Config{
		Seal: ring,
		Work: webhook.Work{Handle: router.Dispatch, Workers: workers, Order: webhook.ByPatient, Stale: webhook.StalePolicyReport},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = inbox.Close(ctx)
	}()
}

// The handler's row exists exactly if the event counts as handled.
func ExampleInTransaction() {
	var router webhook.Router
	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
		return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO shipments (order_id) VALUES ($1)", order.Object.ID)
			return err
		})
	})
}
