package receivertest

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Receiver is the process that a [KillTest] kills: a second instance of the test program. Its
// handler appends the key of each event to the file "handled".
type Receiver struct {
	// Folder is the folder of the [KillTest].
	Folder string

	// Open opens the inbox and starts handling its events.
	Open func(webhook.Work, *seal.KeyRing) (webhook.Inbox, error)

	// Effect writes the key of an event to a table of the program, in the transaction of the
	// inbox. Run calls it only for events with [HasEffect]. Nil writes nothing.
	Effect func(ctx context.Context, key string) error

	// CrashOneIn is the average number of accepts until the receiver kills itself between an
	// accept and its response. 0 means never.
	CrashOneIn int
}

// Run serves the inbox on the inherited socket. The receiver exits if its parent process ends.
func (r Receiver) Run() error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // returns once the parent has ended
		os.Exit(1)
	}()
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	handled, err := os.OpenFile(r.Folder+"/handled", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	ring, err := FixedKeyRing()
	if err != nil {
		return err
	}
	inbox, err := r.Open(webhook.Work{
		Workers: 8, Order: webhook.ByObject, Stale: webhook.StalePolicyReport,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Handle: func(ctx context.Context, _ events.Event) error {
			key := webhook.HandlingFrom(ctx).Key.String()
			if _, err := handled.WriteString(key + "\n"); err != nil || r.Effect == nil || !HasEffect(key) {
				return err
			}
			return r.Effect(ctx, key)
		},
	}, ring)
	if err != nil {
		return err
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: Sandbox, Secrets: []api.Secret{api.NewSecret(Secret)}, Challenge: api.NewSecret(Challenge), Inbox: crashing{inbox, r.CrashOneIn},
		AcceptTimeout: 4 * time.Second, // the machine is busy starting receivers
	})
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// HasEffect reports whether the event with this key has an effect. About half of all events have
// one.
func HasEffect(key string) bool { return sha256.Sum256([]byte(key))[0]%2 == 0 }

// crashing is an inbox that randomly kills its process between an accept and its response,
// without any cleanup.
type crashing struct {
	webhook.Inbox
	oneIn int
}

func (c crashing) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	receipt, err := c.Inbox.Accept(ctx, d)
	if c.oneIn == 0 || rand.IntN(c.oneIn) > 0 {
		return receipt, err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return receipt, err
	}
	_ = self.Kill()
	select {}
}
