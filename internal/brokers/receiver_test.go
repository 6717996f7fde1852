package brokers_test

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// receiverVariable makes this program a receiver.
const receiverVariable = "DISPENSARY_BROKERS_RECEIVER"

// TestMain is also the receivers that the kill test kills.
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

// receiver holds the settings of a receiver's process.
type receiver struct {
	Broker broker
	Folder string
}

// open makes an inbox and its consumer. A broker that is away is waited for.
func (r receiver) open(work webhook.Work, ring *seal.KeyRing) (webhook.Inbox, error) {
	work.Workers, work.Order, work.Stale = r.Broker.workers(), nil, webhook.StaleIgnore
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
	if err := publish.Consume(router, publish.ConsumerConfig{
		Subscriber: subscriber, Topic: r.Broker.Topic, DeadLetters: publisher, DeadLetterTopic: r.Broker.deadLetterTopic(), Seal: ring, Work: work,
	}); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	select {
	case <-router.Running():
		return publish.New(publish.Config{Publisher: publisher, Topic: r.Broker.Topic, Seal: ring})
	case err := <-ended: // which is that of a broker that is away
		return nil, errors.Join(errors.New("the router ended"), err)
	}
}

// workers is one for Kafka, where each subscription takes partitions from the others,
// and all partitions of one are worked off at a time.
func (b broker) workers() int {
	if b.Kind == "kafka" {
		return 1
	}
	return 4
}
