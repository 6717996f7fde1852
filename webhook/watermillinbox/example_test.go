package watermillinbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/ThreeDotsLabs/watermill"
	wmamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/natskv"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/sqlkv"
)

// An inbox on a laptop: SQLite, and messages that stay in the process. The inbox is
// given to a webhook.Handler; here it is given an event by hand.
func ExampleNew() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "inbox")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	db, err := sql.Open("sqlite", sqlkv.SQLiteDSN(filepath.Join(folder, "inbox.db")))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := sqlkv.Migrate(ctx, db, sqlkv.SQLite, sqlkv.Options{}); err != nil {
		log.Fatal(err)
	}
	store, err := sqlkv.New(db, sqlkv.SQLite, sqlkv.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ring, err := seal.ParseKeyRing("2026:q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=") // openssl rand -base64 32
	if err != nil {
		log.Fatal(err)
	}
	handled := make(chan string)
	var router webhook.Router
	router.OnOrderPlaced(func(_ context.Context, order events.OrderEvent) error {
		handled <- order.Data.OrderNumber
		return nil
	})
	channel := gochannel.NewGoChannel(gochannel.Config{}, nil)
	inbox, err := watermillinbox.New(ctx, watermillinbox.Config{
		Work:       webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient, Stale: webhook.StaleReport},
		Seal:       ring,
		Store:      store,
		Publisher:  channel,
		Subscriber: channel,
	})
	if err != nil {
		log.Fatal(err)
	}
	event := webhook.Delivery{
		Key:  webhook.Key{Environment: api.Environment{Region: api.US, Stage: api.Sandbox}, EventID: "evt_1"},
		Type: events.OrderPlaced,
		Body: []byte(`{"event":{"id":"evt_1","type":"order.placed","data":{"id":"or_1","order_number":"R100","patient_id":"pa_1"}}}`),
	}
	for range 2 {
		receipt, err := inbox.Accept(ctx, event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("duplicate:", receipt.Duplicate)
	}
	fmt.Println("handled", <-handled)
	if err := inbox.Close(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// duplicate: false
	// duplicate: true
	// handled R100
}

// NATS JetStream for everything: three replicas of events, keys and messages.
func ExampleNew_nats() {
	const name = "dispensary_inbox"
	ctx := context.Background()
	conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		log.Fatal(err)
	}
	store, err := natskv.Open(ctx, js, natskv.Config{Replicas: 3})
	if err != nil {
		log.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name}, Retention: jetstream.WorkQueuePolicy, Replicas: 3,
	})
	if err != nil {
		log.Fatal(err)
	}
	// All replicas share this consumer. One that Watermill makes ends with its
	// subscriber.
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: name, DeliverSubject: name + ".deliver", DeliverGroup: name, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		log.Fatal(err)
	}
	publisher, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	subscriber, err := wmnats.NewSubscriberWithNatsConn(conn, wmnats.SubscriberSubscriptionConfig{
		QueueGroupPrefix: name, SubscribersCount: webhook.DefaultWorkers,
		JetStream: wmnats.JetStreamConfig{DurablePrefix: name, SubscribeOptions: []nats.SubOpt{nats.ManualAck()}},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	_ = watermillinbox.Config{Store: store, Publisher: publisher, Subscriber: subscriber, Topic: name}
}

// RabbitMQ for the messages, and a database for the events.
func ExampleNew_rabbitMQ() {
	db, err := sql.Open("pgx", os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlkv.New(db, sqlkv.PostgreSQL, sqlkv.Options{}) // after sqlkv.Migrate
	if err != nil {
		log.Fatal(err)
	}
	config := wmamqp.NewDurableQueueConfig(os.Getenv("AMQP_URL")) // durable queue, persistent messages
	config.Publish.ConfirmDelivery = true                         // a message counts when the broker has it
	config.Publish.ChannelPoolSize = 16
	logger := watermill.NewSlogLogger(nil)
	publisher, err := wmamqp.NewPublisher(config, logger)
	if err != nil {
		log.Fatal(err)
	}
	subscriber, err := wmamqp.NewSubscriber(config, logger)
	if err != nil {
		log.Fatal(err)
	}
	_ = watermillinbox.Config{Store: store, Publisher: publisher, Subscriber: subscriber, Subscriptions: webhook.DefaultWorkers}
}
