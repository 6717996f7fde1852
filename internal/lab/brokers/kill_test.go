package brokers_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// TestKill sends events in any order to three receivers, one in four of them twice. The receivers
// are killed in turn, and the connections to the broker are cut twice. Every acknowledged event
// must reach a handler at least once, on every broker.
func TestKill(t *testing.T) {
	t.Parallel()
	one := make(chan struct{}, testsize.Of(6, 1)) // in full size, one broker at a time, for separate figures
	eachBroker(t, 2*time.Second, func(t *testing.T, b broker) {
		one <- struct{}{}
		defer func() { <-one }()
		k := receivertest.NewKillTest(t, testsize.Of(200, 20_000), "in_1")
		var proxy *proxy
		proxy, b.Address = newProxy(t, b)
		settings, err := json.Marshal(receiver{Broker: b, Folder: k.Folder})
		require.NoError(t, err)
		k.Receivers, k.Environ = 3, []string{receiverVariable + "=" + string(settings)}
		k.Pause = testsize.Of(400*time.Millisecond, 0)
		k.Cut = func() { proxy.cut(testsize.Of(300*time.Millisecond, time.Second)) }
		k.Drained = func() bool { return len(k.Handled(t)) == len(k.Keys) }
		k.Run(t)
		k.Check(t)
		assert.Zero(t, k.Exits)
	})
}

// receiverVariable is the environment variable that starts this program as a receiver.
const receiverVariable = "DISPENSARY_BROKERS_RECEIVER"

// TestMain runs the tests, or a receiver process of TestKill.
func TestMain(m *testing.M) {
	if text := os.Getenv(receiverVariable); text != "" {
		var r receiver
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			log.Fatal(err)
		}
		log.Fatal(receivertest.Receiver{Folder: r.Folder, Open: r.open}.Run())
	}
	os.Exit(m.Run())
}

// receiver contains the settings of a receiver process.
type receiver struct {
	Broker broker
	Folder string
}

// open creates an inbox and its handlers. It waits up to 20 seconds for an unreachable broker.
func (r receiver) open(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
	work.Workers, work.Order, work.Stale = 0, nil, webhook.StalePolicyIgnore
	inbox, err := r.start(work, ring)
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); inbox, err = r.start(work, ring) {
		log.Print(err)
		time.Sleep(50 * time.Millisecond)
	}
	return inbox, err
}

func (r receiver) start(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
	publisher, subscriber, err := r.Broker.connect(r.Broker.Topic)
	if err != nil {
		return nil, err
	}
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(work.Logger))
	if err != nil {
		return nil, err
	}
	if err := r.Broker.addHandlers(router, r.Broker.handlers(), subscriber, publisher, ring, work); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	select {
	case <-router.Running():
		return publish.New(publish.Config{Publisher: publisher, Topic: r.Broker.Topic, Seal: ring})
	case err := <-ended: // the broker is unreachable
		return nil, errors.Join(errors.New("the router ended"), err)
	}
}

// handlers returns the number of handlers. It is 1 for Kafka, because each subscription takes
// partitions from the others and handles all its partitions concurrently.
func (b broker) handlers() int {
	if b.Kind == "kafka" {
		return 1
	}
	return 4
}

// proxy forwards connections of receivers to a broker, so that the test can cut them.
type proxy struct {
	target string
	linger time.Duration // between the end of a receiver's connection and the end of the broker's

	mu    sync.Mutex
	conns []net.Conn // of receivers
	down  bool
}

// newProxy starts a proxy for a broker and returns its URL.
func newProxy(t *testing.T, b broker) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(b.Address)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{target: u.Host}
	if b.Kind == "kafka" {
		// If a connection closes while its consumer waits for partitions, the embedded Kafka never
		// expires the consumer, and its partitions have no reader. Kafka does expire it.
		p.linger = 3 * b.Session
	}
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go p.carry(conn)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		p.set(true)
	})
	u.Host = listener.Addr().String()
	return p, u.String()
}

func (p *proxy) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	p.mu.Lock()
	down := p.down
	p.conns = append(p.conns, conn)
	p.mu.Unlock()
	if down {
		return
	}
	go func() {
		_, _ = io.Copy(server, conn)
		time.AfterFunc(p.linger, func() { _ = server.Close() })
	}()
	_, _ = io.Copy(conn, server)
	_ = conn.Close()
	_, _ = io.Copy(io.Discard, server)
}

// set closes all connections of receivers. If down is true, the proxy also drops new ones.
func (p *proxy) set(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}

// cut closes all connections and makes the broker unreachable for d.
func (p *proxy) cut(d time.Duration) {
	p.set(true)
	time.AfterFunc(d, func() { p.set(false) })
}

// One JetStream stream can have both topics. JetStream confirms a message with a known ID
// but drops it, so the dead letters of an event and its replay need different IDs.
func TestDeadLetterSharesStream(t *testing.T) {
	t.Parallel()
	b := broker{Kind: "nats", Address: address(t, natsVariable), Topic: "t" + strings.ToLower(rand.Text()[:12]), Session: time.Minute}
	stream := b.provideStream(t, jetstream.LimitsPolicy, b.Topic, b.deadLetterTopic())
	ring := receivertest.KeyRing(t)
	publisher, subscriber := b.connected(t, b.Topic)
	inbox, err := publish.New(publish.Config{Publisher: publisher, Topic: b.Topic, Seal: ring})
	require.NoError(t, err)
	work := webhook.Work{Handle: func(context.Context, events.Event) error {
		return webhook.Permanent(errors.New("no such clinic"))
	}}
	attempts := receivertest.Observe(&work)
	b.handle(t, subscriber, publisher, ring, work)

	d := delivery(1, "in_1")
	_, err = inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	assert.Equal(t, webhook.ResultDead, (<-attempts).Result)
	dead := received(t, b)
	assert.Equal(t, d.Key.String(), dead.Metadata.Get(publish.MetadataKey))
	require.NoError(t, publish.DeadLetters(publisher).Publish(b.Topic, dead))
	assert.Equal(t, webhook.ResultDead, (<-attempts).Result)
	require.Eventually(t, func() bool {
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(b.deadLetterTopic()))
		return err == nil && info.State.Subjects[b.deadLetterTopic()] == 2
	}, time.Minute, 10*time.Millisecond)
}
