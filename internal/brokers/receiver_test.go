package brokers_test

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// receiverVariable makes this program a receiver.
const receiverVariable = "DISPENSARY_BROKERS_RECEIVER"

// TestMain is also the receivers that the kill test kills: this program, started once
// more.
func TestMain(m *testing.M) {
	if text := os.Getenv(receiverVariable); text != "" {
		log.Fatal(receive(text))
	}
	os.Exit(m.Run())
}

// receiver holds the settings of a receiver's process.
type receiver struct {
	Broker broker
	Folder string
}

// receive is a complete program: a server on the listener that it has inherited, and a
// consumer. A broker that is away when it starts is waited for.
func receive(text string) error {
	var r receiver
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	listener, err := receivertest.Inherited()
	if err != nil {
		return err
	}
	handler, err := r.start()
	for end := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(end); handler, err = r.start() {
		log.Print(err)
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// start starts the consumer, and returns the handler of webhooks.
func (r receiver) start() (http.Handler, error) {
	handler, router, err := r.open()
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	select {
	case <-router.Running():
		return handler, nil
	case err := <-ended: // which is that of a broker that is away
		return nil, errors.Join(errors.New("the router ended"), err)
	}
}

// open makes both ends. The handler of events appends their keys to a file.
func (r receiver) open() (http.Handler, *message.Router, error) {
	handled, err := os.OpenFile(r.Folder+"/handled", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	ring, err := receivertest.FixedKeyRing()
	if err != nil {
		return nil, nil, err
	}
	publisher, subscriber, err := r.Broker.connect(r.Broker.Topic)
	if err != nil {
		return nil, nil, err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NewSlogLogger(logger))
	if err != nil {
		return nil, nil, err
	}
	if err := publish.Consume(router, publish.ConsumerConfig{
		Subscriber: subscriber, Topic: r.Broker.Topic, DeadLetters: publisher, DeadLetterTopic: r.Broker.deadLetterTopic(), Seal: ring,
		Work: webhook.Work{
			Workers: r.Broker.workers(), Logger: logger,
			Handle: func(ctx context.Context, _ events.Event) error {
				_, err := handled.WriteString(webhook.HandlingFrom(ctx).Key.String() + "\n")
				return err
			},
		},
	}); err != nil {
		return nil, nil, err
	}
	inbox, err := publish.New(publish.Config{Publisher: publisher, Topic: r.Broker.Topic, Seal: ring})
	if err != nil {
		return nil, nil, err
	}
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: receivertest.Sandbox, Secrets: []api.Secret{receivertest.Secret}, Challenge: receivertest.Challenge, Inbox: inbox,
		AcceptTimeout: 3 * time.Second, // the machine is busy with starting processes
	})
	return handler, router, err
}

// workers is one for Kafka, where each subscription takes partitions from the others,
// and all partitions of one are worked off at a time.
func (b broker) workers() int {
	if b.Kind == "kafka" {
		return 1
	}
	return 4
}
