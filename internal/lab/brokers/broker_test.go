package brokers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// TestBrokersDeliverEvents publishes and handles events on every broker. Some of them fail, and one
// becomes a dead letter.
func TestBrokersDeliverEvents(t *testing.T) {
	t.Parallel()
	eachBroker(t, time.Minute, func(t *testing.T, b broker) {
		ring := receivertest.KeyRing(t)
		publisher, subscriber := b.connected(t, b.Topic)
		inbox, err := publish.New(publish.Config{Publisher: publisher, Topic: b.Topic, Seal: ring})
		require.NoError(t, err)

		var mu sync.Mutex
		attempts := map[string]int{}
		var observed []webhook.Attempt
		b.handle(t, subscriber, publisher, ring, webhook.Work{
			Handle: func(ctx context.Context, e events.Event) error {
				mu.Lock()
				defer mu.Unlock()
				key := webhook.HandlingFrom(ctx).Key
				attempts[key.EventID]++
				assert.Equal(t, e.ID, key.EventID)
				switch {
				case key.IntegrationID == "in_dead":
					return webhook.Permanent(errors.New(receivertest.Canary))
				case key.IntegrationID == "in_again" && attempts[e.ID] < 3:
					return errors.New(receivertest.Canary)
				}
				return nil
			},
			Observer: webhook.Observer{AttemptEnd: func(_ context.Context, a webhook.Attempt) {
				mu.Lock()
				defer mu.Unlock()
				observed = append(observed, a)
			}},
		})

		sent := map[string]webhook.Delivery{}
		for n, integration := range []string{"in_1", "in_1", "in_again", "in_dead", "in_1"} {
			d := delivery(n, integration)
			sent[d.Key.EventID] = d
			receipt, err := inbox.Accept(t.Context(), d)
			require.NoError(t, err)
			assert.Equal(t, webhook.Receipt{Unchecked: true}, receipt)
		}
		dead := received(t, b)
		handled := func(eventID string) bool {
			return slices.ContainsFunc(observed, func(a webhook.Attempt) bool {
				return a.Key.EventID == eventID && a.Result == webhook.ResultHandled
			})
		}
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return handled("evt_0") && handled("evt_1") && handled("evt_2") && handled("evt_4")
		}, time.Minute, 10*time.Millisecond)

		mu.Lock()
		defer mu.Unlock()
		want := map[string]int{"evt_0": 1, "evt_1": 1, "evt_2": 3, "evt_3": 1, "evt_4": 1}
		if b.Kind == "kafka" {
			// A second consumer takes over partitions when it joins. It receives the events
			// again that the first consumer has handled but not committed.
			for id, n := range want {
				assert.GreaterOrEqual(t, attempts[id], n, id)
			}
		} else {
			assert.Equal(t, want, attempts)
		}
		assert.False(t, handled("evt_3"))
		for _, a := range observed {
			want := sent[a.Key.EventID]
			assert.Equal(t, want.Body, a.Body)
			assert.Equal(t, want.Type, a.Type)
			assert.Equal(t, want.ClinicID, a.ClinicID)
			assert.True(t, want.CreatedAt.Equal(a.CreatedAt))
			assert.True(t, want.ReceivedAt.Equal(a.ReceivedAt))
		}
		assert.Equal(t, sent["evt_3"].Key.String(), dead.Metadata.Get(publish.MetadataKey))
		assert.Equal(t, "webhook event dead: attempt 1: permanent: unnamed error: see webhook.WithReason", dead.Metadata.Get(middleware.ReasonForPoisonedKey))
		assert.NotContains(t, fmt.Sprint(string(dead.Payload), dead.Metadata), receivertest.Canary)
	})
}

// delivery returns a delivery of event number n.
func delivery(n int, integration string) webhook.Delivery {
	return webhook.Delivery{
		Key:  webhook.Key{Environment: receivertest.Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: integration},
		Type: events.TypePatientUpdated, ClinicID: "cl_1", CreatedAt: time.Unix(1_780_000_000, 0), ReceivedAt: time.Now(),
		Body: receivertest.Body(n, integration),
	}
}

// addHandlers adds handlers for the topic of a broker to a router, with the middleware from the
// comment of package publish.
func (b broker) addHandlers(router *message.Router, count int, subscriber message.Subscriber, publisher message.Publisher, keys seal.AEAD, work webhook.Work) error {
	handler, err := publish.Handler(keys, work)
	if err != nil {
		return err
	}
	poison, err := middleware.PoisonQueueWithFilter(publish.DeadLetters(publisher), b.deadLetterTopic(), publish.IsDead)
	if err != nil {
		return err
	}
	retry := middleware.Retry{
		MaxRetries: 9, InitialInterval: time.Millisecond, Multiplier: 2, MaxInterval: time.Second, ShouldRetry: publish.ShouldRetry,
	}
	for n := range count {
		router.AddConsumerHandler(fmt.Sprint(b.Topic, n), b.Topic, subscriber, handler).AddMiddleware(poison, retry.Middleware)
	}
	return nil
}

// handle runs two handlers until the end of the test.
func (b broker) handle(t *testing.T, subscriber message.Subscriber, publisher message.Publisher, keys seal.AEAD, work webhook.Work) {
	t.Helper()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, watermill.NopLogger{})
	require.NoError(t, err)
	require.NoError(t, b.addHandlers(router, 2, subscriber, publisher, keys, work))
	ended := make(chan error, 1)
	go func() { ended <- router.Run(context.Background()) }()
	t.Cleanup(func() {
		assert.NoError(t, router.Close())
		assert.NoError(t, <-ended)
	})
	<-router.Running()
}

// received returns the next dead letter.
func received(t *testing.T, b broker) *message.Message {
	t.Helper()
	_, subscriber := b.connected(t, b.deadLetterTopic())
	messages, err := subscriber.Subscribe(t.Context(), b.deadLetterTopic())
	require.NoError(t, err)
	select {
	case msg := <-messages:
		msg.Ack()
		return msg
	case <-time.After(time.Minute):
		t.Fatal("no dead letter within a minute")
		return nil
	}
}
