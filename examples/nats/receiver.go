package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	watermillnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox/natskv"
)

// settings are what a real program reads from its configuration.
type settings struct {
	url         string
	name        string // of stream, consumer and buckets
	environment dispensary.Environment
	secret      dispensary.Secret
	challenge   dispensary.Secret
	keys        *seal.KeyRing
	logger      *slog.Logger

	handle func(context.Context, events.OrderEvent) error
}

// receiver takes webhooks in and works them off, as one of many that do.
type receiver struct {
	http.Handler
	inbox      *watermillinbox.Inbox
	publisher  *watermillnats.Publisher
	subscriber *watermillnats.Subscriber
	conn       *nats.Conn // of all of them
}

func newReceiver(ctx context.Context, s settings) (r *receiver, err error) {
	r = &receiver{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close(ctx))
		}
	}()
	if r.conn, err = nats.Connect(s.url, nats.MaxReconnects(-1)); err != nil {
		return r, err
	}
	js, err := jetstream.New(r.conn)
	if err != nil {
		return r, err
	}
	if err := provide(ctx, js, s.name); err != nil {
		return r, err
	}
	store, err := natskv.Open(ctx, js, natskv.Config{Bucket: s.name})
	if err != nil {
		return r, err
	}
	if err := r.connect(s); err != nil {
		return r, err
	}
	var router webhook.Router
	router.OnOrderPlaced(s.handle)
	r.inbox, err = watermillinbox.New(ctx, watermillinbox.Config{
		Work:       webhook.Work{Handle: router.Dispatch, Order: webhook.ByPatient, Logger: s.logger},
		Seal:       s.keys,
		Store:      store,
		Publisher:  r.publisher,
		Subscriber: r.subscriber,
		Topic:      s.name,
	})
	if err != nil {
		return r, err
	}
	r.Handler, err = webhook.NewHandler(webhook.Config{
		Environment: s.environment,
		Secrets:     []dispensary.Secret{s.secret},
		Challenge:   s.challenge,
		Inbox:       r.inbox,
		Logger:      s.logger,
	})
	return r, err
}

// provide makes the stream of the topic, and the consumer that all replicas share,
// where they are not there. In production both have three replicas.
func provide(ctx context.Context, js jetstream.JetStream, name string) error {
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{name}, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		return err
	}
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: name, DeliverSubject: name + ".deliver", DeliverGroup: name, AckPolicy: jetstream.AckExplicitPolicy,
	})
	return err
}

// connect makes Watermill's publisher and subscriber.
func (r *receiver) connect(s settings) (err error) {
	r.publisher, err = watermillnats.NewPublisherWithNatsConn(r.conn, watermillnats.PublisherPublishConfig{
		Marshaler: &watermillnats.NATSMarshaler{}, SubjectCalculator: watermillnats.DefaultSubjectCalculator,
	}, nil)
	if err != nil {
		return err
	}
	r.subscriber, err = watermillnats.NewSubscriberWithNatsConn(r.conn, watermillnats.SubscriberSubscriptionConfig{
		QueueGroupPrefix: s.name, SubscribersCount: webhook.DefaultWorkers,
		JetStream: watermillnats.JetStreamConfig{
			DurablePrefix:    s.name, // that of provide: a consumer that Watermill makes ends with its subscriber
			SubscribeOptions: []nats.SubOpt{nats.ManualAck()},
		},
	}, nil)
	return err
}

// close ends the inbox first, and then the connection, with which publisher and
// subscriber end. Closing again does nothing.
func (r *receiver) close(ctx context.Context) (err error) {
	if r.inbox != nil {
		err = r.inbox.Close(ctx)
	}
	if r.conn != nil {
		r.conn.Close()
	}
	return err
}
