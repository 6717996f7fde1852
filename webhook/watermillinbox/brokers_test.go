package watermillinbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wmamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	wmnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// natsTopic makes the stream of a topic and the consumer that all replicas share,
// as doc.go says, and has them end with the test.
func natsTopic(t testing.TB, js jetstream.JetStream, topic string) {
	t.Helper()
	streams(t, js, topic)
	stream, err := patiently(func() (jetstream.Stream, error) {
		return js.CreateStream(t.Context(), jetstream.StreamConfig{Name: topic, Subjects: []string{topic}, Retention: jetstream.WorkQueuePolicy})
	})
	require.NoError(t, err)
	_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: topic, DeliverSubject: topic + ".deliver", DeliverGroup: topic, AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
}

// natsPubSub connects a replica to the topic.
func natsPubSub(url, topic string) (message.Publisher, message.Subscriber, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	publisher, err := wmnats.NewPublisherWithNatsConn(conn, wmnats.PublisherPublishConfig{
		Marshaler: &wmnats.NATSMarshaler{}, SubjectCalculator: wmnats.DefaultSubjectCalculator,
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := wmnats.NewSubscriberWithNatsConn(conn, wmnats.SubscriberSubscriptionConfig{
		QueueGroupPrefix: topic, SubscribersCount: 4,
		JetStream: wmnats.JetStreamConfig{
			DurablePrefix: topic, SubscribeOptions: []nats.SubOpt{nats.ManualAck()}, AckAsync: true,
		},
	}, nil)
	return publisher, natsSubscriber{subscriber, conn}, err
}

// natsSubscriber ends with its connection, as doc.go says.
type natsSubscriber struct {
	message.Subscriber
	conn *nats.Conn
}

func (s natsSubscriber) Close() error {
	s.conn.Close()
	return nil
}

// rabbitTopic has the queue of a topic end with the test.
func rabbitTopic(t testing.TB, uri, topic string) {
	t.Helper()
	t.Cleanup(func() {
		conn, err := amqp091.Dial(uri)
		require.NoError(t, err)
		channel, err := conn.Channel()
		require.NoError(t, err)
		_, err = channel.QueueDelete(topic, false, false, false)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	})
}

// rabbitPubSub connects a replica to the queue.
func rabbitPubSub(uri string) (message.Publisher, message.Subscriber, error) {
	config := wmamqp.NewDurableQueueConfig(uri)
	config.Publish.ConfirmDelivery = true
	config.Publish.ChannelPoolSize = 16
	publisher, err := wmamqp.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := wmamqp.NewSubscriber(config, watermill.NopLogger{})
	return publisher, subscriber, err
}

// redisTopic has the stream of a topic end with the test.
func redisTopic(t testing.TB, url, topic string) {
	t.Helper()
	options, err := redis.ParseURL(url)
	require.NoError(t, err)
	t.Cleanup(func() {
		client := redis.NewClient(options)
		require.NoError(t, client.Del(context.Background(), topic).Err())
		require.NoError(t, client.Close())
	})
}

// redisPubSub connects a replica to the stream, as doc.go says.
func redisPubSub(url, topic string) (message.Publisher, message.Subscriber, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{
		Client: redis.NewClient(options), DefaultMaxlen: 10_000, // each end closes its client
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: redis.NewClient(options), ConsumerGroup: topic,
		MaxIdleTime: time.Second, ClaimInterval: 200 * time.Millisecond,
		NackResendSleep: 100 * time.Millisecond, DisableIndefiniteInitialBlock: true,
	}, nil)
	return publisher, subscriber, err
}

// recorder notes what is published.
type recorder struct {
	mu        sync.Mutex
	publisher message.Publisher
	seen      []byte
	count     int
}

func (r *recorder) to(publisher message.Publisher) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publisher = publisher
}

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	r.mu.Lock()
	for _, m := range messages {
		r.count++
		r.seen = append(append(r.seen, m.Payload...), m.UUID...)
		for name, value := range m.Metadata {
			r.seen = append(append(r.seen, name...), value...)
		}
	}
	publisher := r.publisher
	r.mu.Unlock()
	return publisher.Publish(topic, messages...)
}

func (r *recorder) Close() error { return nil }

func (r *recorder) all() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]byte(nil), r.seen...)
}

func (r *recorder) published() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}
