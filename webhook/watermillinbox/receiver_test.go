package watermillinbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/natskv"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/sqlkv"
)

// receiverVariable makes this program a receiver.
const receiverVariable = "WATERMILLINBOX_TEST_RECEIVER"

// TestMain is also the receivers that the kill test kills: this program, started
// once more.
func TestMain(m *testing.M) {
	if text := os.Getenv(receiverVariable); text != "" {
		log.Fatal(receive(text))
	}
	os.Exit(m.Run())
}

// receiver is what a receiver is told.
type receiver struct {
	Folder             string
	NATS               string // or
	RabbitMQ, Postgres string // or
	Redis, MySQL       string
	Topic              string // and bucket, or table
	Secret, Challenge  string
}

// connect opens store and broker.
func (r receiver) connect() (store watermillinbox.Store, publisher message.Publisher, subscriber message.Subscriber, err error) {
	switch {
	case r.NATS != "":
		if store, err = r.bucket(); err == nil {
			publisher, subscriber, err = natsPubSub(r.NATS, r.Topic)
		}
	case r.RabbitMQ != "":
		if store, err = r.table("pgx", r.Postgres, sqlkv.PostgreSQL); err == nil {
			publisher, subscriber, err = rabbitPubSub(r.RabbitMQ)
		}
	default:
		if store, err = r.table("mysql", r.MySQL, sqlkv.MySQL); err == nil {
			publisher, subscriber, err = redisPubSub(r.Redis, r.Topic)
		}
	}
	return store, publisher, subscriber, err
}

func (r receiver) table(driver, dsn string, dialect sqlkv.Dialect) (watermillinbox.Store, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(6)
	db.SetMaxIdleConns(6)
	return sqlkv.New(db, dialect, sqlkv.Options{Table: r.Topic})
}

func (r receiver) bucket() (watermillinbox.Store, error) {
	conn, err := nats.Connect(r.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	return natskv.Open(context.Background(), js, natskv.Config{Bucket: r.Topic})
}

// open opens an inbox whose handlers append the key of their event to a file. A
// server that is away at the moment is waited for.
func (r receiver) open() (*watermillinbox.Inbox, error) {
	handled, err := os.OpenFile(r.Folder+"/handled", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	ring, err := receivertest.FixedKeyRing()
	if err != nil {
		return nil, err
	}
	store, publisher, subscriber, err := r.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return watermillinbox.New(ctx, watermillinbox.Config{
		Seal: ring, Store: store, Publisher: publisher, Subscriber: subscriber, Topic: r.Topic, Subscriptions: 4,
		Lease: 2 * time.Second, Sweep: 5 * time.Second,
		Work: webhook.Work{
			Workers: 8,
			Order:   webhook.ByObject,
			Stale:   webhook.StaleReport,
			Logger:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
			Handle: func(ctx context.Context, _ events.Event) error {
				key, err := webhook.HandlingFrom(ctx).Key.MarshalText()
				_, failed := handled.Write(append(key, '\n'))
				return errors.Join(err, failed)
			},
		},
	})
}

// receive is a complete program: an inbox, and a server on the listener that it
// has inherited.
func receive(text string) error {
	var r receiver
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	listener, err := receivertest.Inherited()
	if err != nil {
		return err
	}
	inbox, err := r.open()
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); inbox, err = r.open() {
		log.Print(err)
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	handler, err := webhook.NewHandler(webhook.Config{
		Environment: receivertest.Sandbox, Secrets: []api.Secret{api.Secret(r.Secret)}, Challenge: api.Secret(r.Challenge), Inbox: receivertest.Doomed{Inbox: inbox, Once: 1000},
		Tolerance:     30 * 24 * time.Hour, // the platform's clock is moved
		AcceptTimeout: 3 * time.Second,     // the machine is busy with starting processes
	})
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}
