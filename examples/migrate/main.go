// Migrate replaces a receiver that was written by hand while webhooks keep coming:
//
//	go run ./examples/migrate
//
// It starts a fake of the platform. The old receiver, with the mistakes that such
// receivers have, stands in old.go; the new one, and how the two change places on
// one route without shipping anything twice, in new.go.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

// openShop opens the database that the program has had all along.
func openShop(path string) (*sql.DB, error) {
	address := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: "_pragma=journal_mode(WAL)&_pragma=busy_timeout(10000)"}
	db, err := sql.Open("sqlite", address.String()) // the driver that package sqlinbox brings along
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(oldSchema + `; CREATE TABLE shipments (event_id TEXT NOT NULL, order_id TEXT NOT NULL)`)
	return db, err
}

// shipments is how often the order of an event was shipped.
func shipments(db *sql.DB, eventID string) (n int, err error) {
	err = db.QueryRow(`SELECT count(*) FROM shipments WHERE event_id = ?`, eventID).Scan(&n)
	return n, err
}

// settingsOf are what the platform's dashboard shows, and a key that a real
// program reads.
func settingsOf(platform *dispensarytest.Server) (settings, error) {
	key, err := seal.GenerateKey("example")
	if err != nil {
		return settings{}, err
	}
	keys, err := seal.NewKeyRing(key)
	registered := platform.Application()
	return settings{
		environment: platform.Site().Environment,
		secrets:     []dispensary.Secret{dispensary.NewSecret(registered.WebhookSecret)},
		challenge:   dispensary.NewSecret(registered.ChallengeToken),
		keys:        keys,
		logger:      slog.New(slog.DiscardHandler),
		now:         platform.Clock().Now,
	}, err
}

// run changes the receiver between two attempts of the platform to deliver one
// event.
func run(ctx context.Context, out io.Writer) (err error) {
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC))
	platform, err := dispensarytest.Start(dispensarytest.WithClock(clock), dispensarytest.WithBehavior(dispensarytest.DeliveryConditionsOff))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, platform.Close()) }()
	if _, err := platform.Clinics.ActivateKey(platform.ClinicKey()); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "migrate")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	db, err := openShop(filepath.Join(folder, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := settingsOf(platform)
	if err != nil {
		return err
	}
	handled := make(chan string, 10)
	s.observe = func(_ context.Context, a webhook.Attempt) { handled <- a.Key.EventID }
	pack := func(string) error { return nil }
	old := &oldReceiver{db: db, secret: s.secrets[0].Reveal(), challenge: s.challenge.Reveal(), logger: s.logger, pack: pack}
	next, err := startNew(ctx, db, s, pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, next.inbox.Close(ctx)) }()
	return (&story{platform, db, out, handled}).tell(ctx, &crossing{old: old, new: next})
}

// story is what happens between the platform and the two receivers.
type story struct {
	platform *dispensarytest.Server
	db       *sql.DB
	out      io.Writer
	handled  <-chan string // by the new one
}

func (s *story) tell(ctx context.Context, route *crossing) error {
	var lost atomic.Bool
	lost.Store(true)
	err := s.platform.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lost.Load() {
			route.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusBadGateway) // of a proxy, in place of the answer
			return
		}
		route.ServeHTTP(w, r)
	}), model.OrderPlaced)
	if err != nil {
		return err
	}
	first, err := s.place()
	if err != nil {
		return err
	}
	s.platform.Clock().Advance(0)
	if err := s.report("the old receiver shipped, and its answer was lost", first); err != nil {
		return err
	}
	route.goOver()
	lost.Store(false)
	second, err := s.place()
	if err != nil {
		return err
	}
	s.platform.Clock().Advance(time.Minute) // the first is sent again
	for range 2 {
		select {
		case <-s.handled:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.report("the new receiver was sent both", first, second)
}

// place lets a patient order.
func (s *story) place() (eventID string, err error) {
	_, event, err := s.platform.Orders.Place(s.platform.Patients.All()[0].ID, model.NewOrder{})
	return event.ID, err
}

// report prints how often each order has been shipped so far.
func (s *story) report(what string, eventIDs ...string) error {
	fmt.Fprint(s.out, what, "; shipments so far:")
	for _, eventID := range eventIDs {
		n, err := shipments(s.db, eventID)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, " %d", n)
	}
	fmt.Fprintln(s.out)
	return nil
}
