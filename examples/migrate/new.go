package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

// newReceiver takes the old one's place, in the same database.
type newReceiver struct {
	http.Handler
	db    *sql.DB
	inbox *sqlinbox.Inbox
	pack  func(eventID string) error
}

// settings are what a real program reads from its configuration.
type settings struct {
	environment dispensary.Environment
	secrets     []dispensary.Secret
	challenge   dispensary.Secret
	keys        *seal.KeyRing
	logger      *slog.Logger
	observe     func(context.Context, webhook.Attempt)
	now         func() time.Time // nil is the time

	acceptTimeout time.Duration // 0 is the default
}

// startNew adds the inbox's tables to the database, and starts its workers.
func startNew(ctx context.Context, db *sql.DB, s settings, pack func(eventID string) error) (*newReceiver, error) {
	n := &newReceiver{db: db, pack: pack}
	var router webhook.Router
	router.OnOrderPlaced(n.ship)
	if err := sqlinbox.Migrate(ctx, db); err != nil {
		return nil, err
	}
	var err error
	n.inbox, err = sqlinbox.New(db, sqlinbox.Config{
		Work: webhook.Work{Handle: router.Dispatch, Logger: s.logger, Observer: webhook.Observer{AttemptEnd: s.observe}},
		Seal: s.keys,
	})
	if err != nil {
		return nil, err
	}
	n.Handler, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.environment,
		Secrets:     s.secrets,
		Challenge:   s.challenge,
		Inbox:       n.inbox,
		Logger:      s.logger,
		Now:         s.now,

		AcceptTimeout: s.acceptTimeout,
	})
	if err != nil {
		return nil, errors.Join(err, n.inbox.Close(ctx))
	}
	return n, nil
}

// ship does what the old receiver did, for what that has not done. What the
// platform sends again, because the old one's answer was lost, is in the old
// one's table and not in the inbox. The table can go 30 days after the change,
// when the platform has forgotten the last of its events.
func (n *newReceiver) ship(ctx context.Context, order events.OrderEvent) error {
	var before bool
	err := n.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM webhook_events WHERE event_id = ?)`, order.ID).Scan(&before)
	if err != nil || before {
		return err
	}
	if err := n.pack(order.ID); err != nil {
		return err
	}
	return sqlinbox.InTransaction(ctx, func(ctx context.Context, tx sqlinbox.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO shipments (event_id, order_id) VALUES (?, ?)`, order.ID, order.Data.ID)
		return err
	})
}

// crossing is the route of both: it leads to the old receiver, and after the switch to
// the new one.
type crossing struct {
	old, new http.Handler

	mu   sync.RWMutex // held for reading while the old receiver works
	over bool
}

// ServeHTTP implements [http.Handler].
func (c *crossing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !c.serveOld(w, r) {
		c.new.ServeHTTP(w, r)
	}
}

func (c *crossing) serveOld(w http.ResponseWriter, r *http.Request) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.over {
		c.old.ServeHTTP(w, r)
	}
	return !c.over
}

// goOver waits until the old receiver has ended what it does, so that the new one
// finds all of it in the table.
func (c *crossing) goOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}
