package sqlinbox_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

const (
	secret    = "whsec_kill_0123456789abcdef"
	challenge = "challenge-kill-0123456789"
	canary    = "Zaphod-Kill-Canary"
)

var sandbox = api.Environment{Region: api.US, Stage: api.Sandbox}

// TestMain is also the receiver that the kill test kills: this program, started
// once more.
func TestMain(m *testing.M) {
	if folder := os.Getenv("SQLINBOX_TEST_RECEIVER"); folder != "" {
		log.Fatal(receive(folder))
	}
	os.Exit(m.Run())
}

// fixedRing makes a ring that every process of a test has.
func fixedRing() (*seal.KeyRing, error) {
	return seal.ParseKeyRing("kill:" + api.Secret("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="))
}

// receive is a complete program: an inbox, and a server on the listener that it
// has inherited. Handlers append the key of their event to a file; every other
// one writes to a table of its own, in the transaction of the inbox.
func receive(folder string) error {
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	handled, err := os.OpenFile(folder+"/handled", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	ring, err := fixedRing()
	if err != nil {
		return err
	}
	idle := newIdle()
	inbox, err := sqlinbox.Open(folder+"/inbox.db", sqlinbox.Config{
		Seal: ring,
		Work: webhook.Work{
			Workers: 16,
			Order:   webhook.ByObject,
			Stale:   webhook.StaleReport,
			Observe: idle.observe,
			Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Handle:  func(ctx context.Context, _ events.Event) error { return effect(ctx, handled) },
		},
	})
	if err != nil {
		return err
	}
	handler, err := webhook.NewHandler(webhook.Config{
		Environment: sandbox, Secrets: []api.Secret{secret}, Challenge: challenge, Inbox: doomed{inbox},
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

// doomed is an inbox whose process sometimes dies between the accept and the
// answer.
type doomed struct{ webhook.Inbox }

func (d doomed) Accept(ctx context.Context, delivery webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := d.Inbox.Accept(ctx, delivery)
	if rand.IntN(3000) == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return receipt, err
		}
		_ = self.Kill()
		select {}
	}
	return receipt, err
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

// body makes the event with a number, of one of 500 patients.
func body(n int, integration string) []byte {
	return fmt.Appendf(nil, `{"event":{"id":"evt_%d","type":"patient.updated","created_at":"2026-11-20T10:%02d:%02dZ","clinic_id":"cl_1","integration_id":%q,`+
		`"data":{"patient":{"id":"pa_%d","first_name":%q,"note":%q}}}}`,
		n, n/60%60, n%60, integration, n%500, canary, hex.EncodeToString(make([]byte, 700)))
}
