package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/examples/scene"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// settings are the values that a real program reads from its configuration.
type settings struct {
	scene.Settings
	address string
	name    string // of stream and consumer
	handle  func(context.Context, events.OrderEvent) error
}

// deadLetters is the topic of dead letters.
func (s settings) deadLetters() string { return s.name + "_dead" }

// receiver publishes webhooks, and handles its own and other replicas' events.
type receiver struct {
	http.Handler
	settings   settings
	conn       *nats.Conn // shared by all parts
	publisher  message.Publisher
	subscriber message.Subscriber
	router     *message.Router
	stop       context.CancelFunc
	stopped    chan error
}

func newReceiver(ctx context.Context, s settings) (r *receiver, err error) {
	r = &receiver{settings: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.connect(ctx); err != nil {
		return r, err
	}
	inbox, err := publish.New(publish.Config{Publisher: r.publisher, Topic: s.name, Seal: s.Keys, Order: webhook.ByPatient})
	if err != nil {
		return r, err
	}
	r.Handler, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: s.Environment,
		Secrets:     []dispensary.Secret{s.Secret},
		Challenge:   s.Challenge,
		Inbox:       inbox,
	})
	if err != nil {
		return r, err
	}
	return r, r.consume(ctx)
}

const (
	// Each subscription handles one event at a time.
	subscriptions, replicas = 4, 2

	handlerTimeout = 2 * time.Second

	// ackWait is the time that NATS waits for an acknowledgement: longer than two attempts and the wait
	// between them. If a replica stops before it starts an event, the event waits that long.
	ackWait = 2*handlerTimeout + 12*time.Second
)

// connect connects to NATS and creates the publisher and the subscriber.
func (r *receiver) connect(ctx context.Context) (err error) {
	if r.conn, err = nats.Connect(r.settings.address, nats.MaxReconnects(-1)); err != nil {
		return err
	}
	for _, topic := range []string{r.settings.name, r.settings.deadLetters()} {
		if err := r.provide(ctx, topic); err != nil {
			return err
		}
	}
	r.publisher, err = watermillnats.NewPublisherWithNatsConn(r.conn, watermillnats.PublisherPublishConfig{
		Marshaler: &watermillnats.NATSMarshaler{}, SubjectCalculator: watermillnats.DefaultSubjectCalculator,
		JetStream: watermillnats.JetStreamConfig{TrackMsgId: true}, // drops repeated publishes, see Duplicates
	}, nil)
	if err != nil {
		return err
	}
	r.subscriber, err = r.subscribe(r.settings.name)
	return err
}

// provide creates the stream of a topic and its consumer, shared by all replicas, if they do not exist.
// In production, use streams with three replicas. Without MaxAckPending, NATS sends up to 1,000 events to the
// replicas at once. Their AckWait begins then, although most of them wait for a subscription.
func (r *receiver) provide(ctx context.Context, topic string) error {
	js, err := jetstream.New(r.conn)
	if err != nil {
		return err
	}
	stream, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: topic, Subjects: []string{topic}, Retention: jetstream.WorkQueuePolicy,
		Duplicates: 24 * time.Hour, // the platform retries that long
	})
	if err != nil {
		return err
	}
	_, err = stream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: topic, DeliverSubject: topic + ".deliver", DeliverGroup: topic,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: subscriptions * replicas,
	})
	return err
}

// subscribe creates the subscriber of a topic.
func (r *receiver) subscribe(topic string) (message.Subscriber, error) {
	return watermillnats.NewSubscriberWithNatsConn(r.conn, watermillnats.SubscriberSubscriptionConfig{
		QueueGroupPrefix: topic, AckWaitTimeout: ackWait,
		NakDelay: watermillnats.NewStaticDelay(time.Second), // if a dead letter cannot be published
		JetStream: watermillnats.JetStreamConfig{
			DurablePrefix:    topic, // the consumer of provide, because Watermill deletes its own consumers with the subscriber
			SubscribeOptions: []nats.SubOpt{nats.ManualAck()},
		},
	}, nil)
}

// consume starts handling events.
func (r *receiver) consume(ctx context.Context) (err error) {
	var handlers webhook.Router
	handlers.OnOrderPlaced(r.settings.handle)
	handler, err := publish.Handler(r.settings.Keys, webhook.Work{Handle: handlers.Dispatch, HandlerTimeout: handlerTimeout})
	if err != nil {
		return err
	}
	poison, err := middleware.PoisonQueueWithFilter(publish.DeadLetters(r.publisher), r.settings.deadLetters(), publish.IsDead)
	if err != nil {
		return err
	}
	retry := middleware.Retry{
		MaxRetries: 1, InitialInterval: time.Second, Multiplier: 2, MaxInterval: 10 * time.Second, ShouldRetry: publish.ShouldRetry,
	}
	r.router, err = message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	for n := range subscriptions {
		name := fmt.Sprintf("%s-%d", r.settings.name, n)
		r.router.AddConsumerHandler(name, r.settings.name, r.subscriber, handler).AddMiddleware(poison, retry.Middleware)
	}
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.stopped = make(chan error, 1)
	go func() { r.stopped <- r.router.Run(ctx) }()
	select {
	case <-r.router.Running():
		return nil
	case err := <-r.stopped:
		r.stopped <- nil
		return err
	}
}

// deadLetter returns the event key and the reason of the next dead letter.
func (r *receiver) deadLetter(ctx context.Context) (string, error) {
	subscriber, err := r.subscribe(r.settings.deadLetters())
	if err != nil {
		return "", err
	}
	messages, err := subscriber.Subscribe(ctx, r.settings.deadLetters())
	if err != nil {
		return "", err
	}
	select {
	case msg := <-messages:
		msg.Ack()
		return msg.Metadata.Get(publish.MetadataType) + ", " + msg.Metadata.Get(middleware.ReasonForPoisonedKey), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// close stops handling, waits for running handlers, and closes the connection. Later calls do nothing.
func (r *receiver) close() (err error) {
	if r.stop != nil {
		r.stop()
		err = <-r.stopped
		r.stop = nil
	}
	if r.conn != nil {
		r.conn.Close()
	}
	return err
}
