package riverinbox_test

import (
	"context"
	"crypto/sha256"
	"log"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/riverinbox"
)

// TestMain is also the receiver that the kill test kills: this program, started
// once more.
func TestMain(m *testing.M) {
	if folder := os.Getenv("RIVERINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receive(folder))
	}
	os.Exit(m.Run())
}

// receive is a complete program: an inbox, and a server on the listener that it
// has inherited. Handlers append the key of their event to a file; every other
// one writes to a table of its own, in the transaction of the inbox.
func receive(folder string) error {
	listener, err := receivertest.Inherited()
	if err != nil {
		return err
	}
	handled, err := os.OpenFile(folder+"/handled", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	ring, err := receivertest.FixedKeyRing()
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(context.Background(), os.Getenv("RIVERINBOX_TEST_ADDRESS"))
	if err != nil {
		return err
	}
	inbox, err := riverinbox.Open(context.Background(), pool, riverinbox.Config{
		Seal:  ring,
		Lease: 3 * time.Second,
		Work: webhook.Work{
			Workers: 8,
			Order:   webhook.ByObject,
			Stale:   webhook.StaleReport,
			Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Handle:  func(ctx context.Context, _ events.Event) error { return effect(ctx, handled) },
		},
	})
	if err != nil {
		return err
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: receivertest.Sandbox, Secrets: []api.Secret{api.Secret(os.Getenv("RIVERINBOX_TEST_SECRET"))},
		Challenge: api.Secret(os.Getenv("RIVERINBOX_TEST_CHALLENGE")), Inbox: receivertest.CrashingInbox{Inbox: inbox, OneIn: testsize.Of(100, 1000)},
		AcceptTimeout: 4 * time.Second,  // the machine is busy starting processes
		Tolerance:     1000 * time.Hour, // the platform's clock goes faster
	})
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// effect is what a handler does.
func effect(ctx context.Context, handled *os.File) error {
	key, err := webhook.HandlingFrom(ctx).Key.MarshalText()
	if err != nil {
		return err
	}
	if _, err := handled.Write(append(key, '\n')); err != nil {
		return err
	}
	if !hasEffect(string(key)) {
		return nil
	}
	return riverinbox.InTransaction(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects (key) VALUES ($1)", string(key))
		return err
	})
}

// hasEffect is true of about every other event.
func hasEffect(key string) bool { return sha256.Sum256([]byte(key))[0]%2 == 0 }
