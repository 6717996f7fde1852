package sqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// One file stores the inbox and the program's own tables. A handler writes its row in the
// transaction that stores the event as handled, so the row is written exactly once.
func ExampleDSN() {
	folder, err := os.MkdirTemp("", "inbox")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	dsn, err := sqlinbox.DSN(filepath.Join(folder, "program.db"))
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx := context.Background()
	if err := sqlinbox.Migrate(ctx, db); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (number TEXT PRIMARY KEY)"); err != nil {
		log.Fatal(err)
	}

	handled := make(chan struct{})
	var router webhook.Router
	router.OnOrderPlaced(func(ctx context.Context, order events.OrderEvent) error {
		return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO orders (number) VALUES (?) ON CONFLICT DO NOTHING", order.Object.OrderNumber)
			return err
		})
	})
	ring, err := seal.ParseKeyRing(api.NewSecret("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=")) // openssl rand -base64 32
	if err != nil {
		log.Fatal(err)
	}
	inbox, err := sqlinbox.New(db, sqlinbox.Config{Seal: ring, Work: webhook.Work{
		Handle:   router.Dispatch,
		Observer: webhook.Observer{AttemptEnd: func(context.Context, webhook.Attempt) { close(handled) }},
	}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = inbox.Accept(ctx, webhook.Delivery{ // done by webhook.Handler in production
		Key:  webhook.Key{Environment: api.USSandbox, EventID: "evt_1"},
		Type: events.TypeOrderPlaced,
		Body: []byte(`{"event":{"id":"evt_1","type":"order.placed","data":{"id":"or_1","order_number":"R100","patient_id":"pa_1"}}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	<-handled

	var number string
	if err := db.QueryRowContext(ctx, "SELECT number FROM orders").Scan(&number); err != nil {
		log.Fatal(err)
	}
	fmt.Println("order", number)
	if err := inbox.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// order R100
}

// Back up an open inbox, and start from the backup.
func ExampleOpen_backup() {
	folder, err := os.MkdirTemp("", "inbox")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path, backup := filepath.Join(folder, "inbox.db"), filepath.Join(folder, "backup.db")
	ring, err := seal.ParseKeyRing(api.NewSecret("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=")) // openssl rand -base64 32
	if err != nil {
		log.Fatal(err)
	}
	config := sqlinbox.Config{Seal: ring, Work: webhook.Work{
		Handle: func(context.Context, events.Event) error { return nil },
	}}
	inbox, err := sqlinbox.Open(path, config)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	key := webhook.Key{Environment: api.USSandbox, EventID: "evt_1"}
	if _, err := inbox.Accept(ctx, webhook.Delivery{Key: key, Type: events.TypeOrderPlaced}); err != nil {
		log.Fatal(err)
	}

	dsn, err := sqlinbox.DSN(path)
	if err != nil {
		log.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", backup); err != nil {
		log.Fatal(err)
	}
	if err := errors.Join(db.Close(), inbox.Close(ctx)); err != nil {
		log.Fatal(err)
	}

	// Restore: the process has stopped.
	for _, end := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			log.Fatal(err)
		}
	}
	if err := os.Rename(backup, path); err != nil {
		log.Fatal(err)
	}
	inbox, err = sqlinbox.Open(path, config)
	if err != nil {
		log.Fatal(err)
	}
	missing, err := inbox.Missing(ctx, []webhook.Key{key})
	fmt.Println("missing events:", len(missing), err)
	if err := inbox.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// missing events: 0 <nil>
}
