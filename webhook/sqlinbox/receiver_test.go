package sqlinbox_test

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/internal/testsize"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// TestMain is also the receiver that the kill test kills: this program, started
// once more.
func TestMain(m *testing.M) {
	if folder := os.Getenv("SQLINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receive(folder))
	}
	if path := os.Getenv("SQLINBOX_TEST_WRITER"); path != "" {
		os.Exit(writeElsewhere(path))
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
	idle := newIdle()
	inbox, err := sqlinbox.Open(folder+"/inbox.db", sqlinbox.Config{
		Seal: ring,
		Work: webhook.Work{
			Workers:  16,
			Order:    webhook.ByObject,
			Stale:    webhook.StaleReport,
			Observer: webhook.Observer{AttemptEnd: idle.observe},
			Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Handle:   func(ctx context.Context, _ events.Event) error { return effect(ctx, handled) },
		},
	})
	if err != nil {
		return err
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: receivertest.Sandbox, Secrets: []api.Secret{receivertest.Secret}, Challenge: receivertest.Challenge, Inbox: receivertest.CrashingInbox{Inbox: inbox, OneIn: testsize.Of(150, 3000)},
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks", handler)
	mux.HandleFunc("/idle", func(w http.ResponseWriter, r *http.Request) { idle.wait(r.Context(), inbox) })
	return http.Serve(listener, mux)
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
	if len(key)%2 == 0 {
		return nil
	}
	return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO effects (key) VALUES (?)", string(key))
		return err
	})
}

// idle knows when there is nothing left to handle.
type idle struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newIdle() *idle { return &idle{changed: make(chan struct{})} }

func (i *idle) observe(context.Context, webhook.Attempt) {
	i.mu.Lock()
	defer i.mu.Unlock()
	close(i.changed)
	i.changed = make(chan struct{})
}

func (i *idle) wait(ctx context.Context, inbox *sqlinbox.Inbox) {
	for {
		i.mu.Lock()
		changed := i.changed
		i.mu.Unlock()
		if s, err := inbox.Stats(ctx); err == nil && s.Waiting+s.Running == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
