package brokers_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	watermillnats "github.com/ThreeDotsLabs/watermill-nats/v2/pkg/nats"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/alicebob/miniredis/v2"
	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/dispensary-go/dispensary/webhook/publish"
)

// The environment variables with the URLs of servers, besides the embedded ones.
const (
	natsVariable   = "DISPENSARY_TEST_NATS"     // nats://127.0.0.1:4222
	rabbitVariable = "DISPENSARY_TEST_RABBITMQ" // amqp://guest:guest@127.0.0.1:5672/
	redisVariable  = "DISPENSARY_TEST_REDIS"    // redis://127.0.0.1:6379/
)

// eachBroker runs a test on every embedded broker, and on every server in the environment.
func eachBroker(t *testing.T, test func(t *testing.T, b broker)) {
	t.Helper()
	for name, start := range map[string]func(*testing.T) string{
		"nats/embedded":   embeddedNATS,
		"nats/server":     func(t *testing.T) string { return address(t, natsVariable) },
		"kafka/embedded":  embeddedKafka,
		"redis/embedded":  func(t *testing.T) string { return "redis://" + miniredis.RunT(t).Addr() },
		"redis/server":    func(t *testing.T) string { return address(t, redisVariable) },
		"rabbitmq/server": func(t *testing.T) string { return address(t, rabbitVariable) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _, _ := strings.Cut(name, "/")
			b := broker{Kind: kind, Address: start(t), Topic: "t" + strings.ToLower(rand.Text()[:12]), Session: time.Minute}
			b.provide(t, b.Topic)
			b.provide(t, b.deadLetterTopic())
			test(t, b)
		})
	}
}

func address(t testing.TB, variable string) string {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		t.Skipf("%s is not set", variable)
	}
	return text
}

func embeddedNATS(t *testing.T) string {
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	server.Start()
	t.Cleanup(func() {
		server.Shutdown()
		server.WaitForShutdown()
	})
	require.True(t, server.ReadyForConnections(time.Minute))
	return server.ClientURL()
}

func embeddedKafka(t *testing.T) string {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(8), kfake.AllowAutoTopicCreation(),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return "kafka://" + cluster.ListenAddrs()[0]
}

// broker is a server with a topic for one test. The topic is deleted after the test.
type broker struct {
	Kind    string // nats, rabbitmq, kafka or redis
	Address string
	Topic   string
	Session time.Duration // session timeout of Kafka, after which other replicas get the events of a silent one
}

func (b broker) deadLetterTopic() string { return b.Topic + "_dead" }

// provide creates the stream or queue of a topic, as the comment of package publish requires.
func (b broker) provide(t *testing.T, topic string) {
	t.Helper()
	switch b.Kind {
	case "nats":
		provideStream(t, b.Address, jetstream.WorkQueuePolicy, topic)
	case "rabbitmq":
		conn, err := amqp091.Dial(b.Address)
		require.NoError(t, err)
		channel, err := conn.Channel()
		require.NoError(t, err)
		_, err = channel.QueueDeclare(topic, true, false, false, false, nil)
		require.NoError(t, err)
		t.Cleanup(func() {
			_, err := channel.QueueDelete(topic, false, false, false)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		})
	case "redis":
		options, err := redis.ParseURL(b.Address)
		require.NoError(t, err)
		client := redis.NewClient(options)
		t.Cleanup(func() {
			_ = client.Del(context.Background(), topic) // an embedded server may be closed
			require.NoError(t, client.Close())
		})
	}
}

// provideStream creates a stream of topics, with one consumer per topic.
func provideStream(t *testing.T, url string, retention jetstream.RetentionPolicy, topics ...string) jetstream.Stream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	var stream jetstream.Stream
	// Retry, because the server may be removing the folder of all streams after another test
	// has deleted the last stream.
	require.Eventually(t, func() bool {
		stream, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: topics[0], Subjects: topics, Retention: retention})
		return err == nil
	}, 10*time.Second, 50*time.Millisecond)
	for _, topic := range topics {
		_, err = stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
			Durable: topic, DeliverSubject: topic + ".deliver", DeliverGroup: topic, FilterSubject: topic,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * time.Second,
		})
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		_ = js.DeleteStream(context.Background(), topics[0]) // an embedded server may be closed
		conn.Close()
	})
	return stream
}

// connect connects a replica to a topic, as the comment of package publish requires.
func (b broker) connect(topic string) (message.Publisher, message.Subscriber, error) {
	switch b.Kind {
	case "nats":
		return connectNATS(b.Address, topic)
	case "rabbitmq":
		return connectRabbitMQ(b.Address)
	case "kafka":
		return connectKafka(b.Address, topic, b.Session)
	}
	return connectRedis(b.Address, topic)
}

func connectNATS(address, topic string) (message.Publisher, message.Subscriber, error) {
	conn, err := nats.Connect(address, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	publisher, err := watermillnats.NewPublisherWithNatsConn(conn, watermillnats.PublisherPublishConfig{
		Marshaler: &watermillnats.NATSMarshaler{}, SubjectCalculator: watermillnats.DefaultSubjectCalculator,
		JetStream: watermillnats.JetStreamConfig{TrackMsgId: true},
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := watermillnats.NewSubscriberWithNatsConn(conn, watermillnats.SubscriberSubscriptionConfig{
		QueueGroupPrefix: topic, SubscribersCount: 1,
		JetStream: watermillnats.JetStreamConfig{DurablePrefix: topic, SubscribeOptions: []nats.SubOpt{nats.ManualAck()}},
	}, nil)
	return publisher, subscriber, err
}

func connectRabbitMQ(address string) (message.Publisher, message.Subscriber, error) {
	config := amqp.NewDurableQueueConfig(address)
	config.Publish.ConfirmDelivery = true
	// Use no pool of channels. The driver's pool loses a channel that it cannot reopen, so a
	// publisher that lost its connection might wait for a channel forever.
	publisher, err := amqp.NewPublisher(config, watermill.NopLogger{})
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := amqp.NewSubscriber(config, watermill.NopLogger{})
	return publisher, subscriber, err
}

func connectKafka(address, topic string, session time.Duration) (message.Publisher, message.Subscriber, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, err
	}
	config := kafka.DefaultSaramaSyncPublisherConfig()
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Backoff, config.Metadata.Retry.Backoff = 50*time.Millisecond, 50*time.Millisecond
	throughProxy(config, u.Host)
	publisher, err := kafka.NewPublisher(kafka.PublisherConfig{
		Brokers: []string{u.Host}, Marshaler: kafka.NewWithPartitioningMarshaler(publish.OrderingKey), OverwriteSaramaConfig: config,
	}, nil)
	if err != nil {
		return nil, nil, err
	}
	config = kafka.DefaultSaramaSubscriberConfig()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.Session.Timeout, config.Consumer.Group.Heartbeat.Interval = session, 100*time.Millisecond
	config.Consumer.Group.Rebalance.Timeout = 500 * time.Millisecond
	throughProxy(config, u.Host)
	subscriber, err := kafka.NewSubscriber(kafka.SubscriberConfig{
		Brokers: []string{u.Host}, Unmarshaler: kafka.DefaultMarshaler{}, ConsumerGroup: topic, OverwriteSaramaConfig: config,
		NackResendSleep: 50 * time.Millisecond, ReconnectRetrySleep: 50 * time.Millisecond,
	}, nil)
	return publisher, subscriber, err
}

// throughProxy sends all connections to one address. Otherwise a client would connect to the
// addresses returned by the Kafka broker.
func throughProxy(config *sarama.Config, address string) {
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, dialer(address)
}

type dialer string

func (d dialer) Dial(network, _ string) (net.Conn, error) { return net.Dial(network, string(d)) }

func connectRedis(address, topic string) (message.Publisher, message.Subscriber, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, nil, err
	}
	publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: redis.NewClient(options)}, nil)
	if err != nil {
		return nil, nil, err
	}
	subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
		Client: redis.NewClient(options), ConsumerGroup: topic,
		MaxIdleTime: time.Second, ClaimInterval: 200 * time.Millisecond, NackResendSleep: 50 * time.Millisecond,
		DisableIndefiniteInitialBlock: true,
	}, nil)
	return publisher, subscriber, err
}

// connected calls connect and closes both ends after the test.
func (b broker) connected(t *testing.T, topic string) (message.Publisher, message.Subscriber) {
	t.Helper()
	publisher, subscriber, err := b.connect(topic)
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(subscriber.Close(), publisher.Close()) })
	return publisher, subscriber
}
