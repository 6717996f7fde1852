package watermillinbox_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/watermillinbox"
)

// TestTheBrokerCarries holds that it is the broker who brings the events, and that
// he brings them to those who have time.
func TestTheBrokerCarries(t *testing.T) {
	t.Parallel()
	for name, broker := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := broker(t)
			begun, gate := make(chan struct{}, 1), make(chan struct{})
			busy, _, madeBusy := r.start(t, func(ctx context.Context, _ events.Event) error {
				begun <- struct{}{}
				select {
				case <-gate:
				case <-ctx.Done():
				}
				return ctx.Err()
			}, func(c *watermillinbox.Config) { c.Work.Workers = 1 })
			first := accept(t, busy)
			<-begun
			_, _, made := r.start(t, receivertest.Succeed)
			all := map[webhook.Key]bool{}
			for range 20 {
				all[accept(t, busy).Key] = true
			}
			for len(all) > 0 {
				a := await(t, made)
				assert.Equal(t, webhook.ResultHandled, a.Result)
				delete(all, a.Key)
			}
			close(gate)
			handled(t, madeBusy, first)
			assert.Equal(t, 21, r.published.published(), "one message for each event")
			stats, err := busy.Stats(t.Context())
			require.NoError(t, err)
			assert.Zero(t, stats)
		})
	}
}

// publisherFunc is a publisher.
type publisherFunc func(topic string, messages ...*message.Message) error

func (f publisherFunc) Publish(topic string, messages ...*message.Message) error {
	return f(topic, messages...)
}
func (publisherFunc) Close() error { return nil }

// TestMessagesAreLost holds that what the broker has lost is found by a sweep.
func TestMessagesAreLost(t *testing.T) {
	t.Parallel()
	r := onALaptop(t)
	inbox, _, made := r.start(t, receivertest.Succeed, func(c *watermillinbox.Config) {
		c.Publisher = publisherFunc(func(string, ...*message.Message) error { return nil })
	})
	d := accept(t, inbox)
	never(t, made)
	require.NoError(t, inbox.SweepNow())
	handled(t, made, d)
}

// TestMessagesAreRepeated holds that a message is worth nothing but a look.
func TestMessagesAreRepeated(t *testing.T) {
	t.Parallel()
	r := onALaptop(t)
	var payload []byte
	inbox, _, made := r.start(t, receivertest.Succeed, func(c *watermillinbox.Config) {
		publish := c.Publisher.Publish
		c.Publisher = publisherFunc(func(topic string, messages ...*message.Message) error {
			payload = messages[0].Payload
			return errors.Join(publish(topic, messages[0].Copy()), publish(topic, messages[0].Copy()), publish(topic, messages[0].Copy()))
		})
	})
	d := accept(t, inbox)
	handled(t, made, d)
	for _, other := range [][]byte{payload, nil, []byte("hello"), []byte("pending.e-" + receivertest.Canary), payload[:20], bytes.Replace(payload, []byte("e-"), []byte("s-"), 1), payload[:len(payload)-2]} {
		require.NoError(t, r.published.Publish(r.topicName(), message.NewMessage("", other)))
	}
	handled(t, made, accept(t, inbox))
	never(t, made)
}

// TestTheBrokerIsDown holds that an event is accepted all the same: it is in the
// store, and this process handles it.
func TestTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	for name, publish := range map[string]publisherFunc{
		"error":  func(string, ...*message.Message) error { return errors.New("not connected") },
		"panic":  func(string, ...*message.Message) error { panic(receivertest.Canary) },
		"blocks": func(string, ...*message.Message) error { <-forever; return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inbox, _, made := onALaptop(t).start(t, receivertest.Succeed, func(c *watermillinbox.Config) { c.Publisher = publish })
			handled(t, made, accept(t, inbox))
			handled(t, made, accept(t, inbox))
		})
	}
}

// flaky is a subscriber whose subscriptions a test can end.
type flaky struct {
	message.Subscriber

	mu      sync.Mutex
	cancels []func()
	refuse  error
}

func (f *flaky) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return nil, f.refuse
	}
	ctx, cancel := context.WithCancel(ctx)
	f.cancels = append(f.cancels, cancel)
	return f.Subscriber.Subscribe(ctx, topic)
}

func (f *flaky) end() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, cancel := range f.cancels {
		cancel()
		n++
	}
	f.cancels = nil
	return n
}

func (f *flaky) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.cancels)
}

// TestSubscriptionsEnd holds that an inbox subscribes again.
func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	var subscriber *flaky
	inbox, _, made := onALaptop(t).start(t, receivertest.Succeed, func(c *watermillinbox.Config) {
		subscriber = &flaky{Subscriber: c.Subscriber}
		c.Subscriber = subscriber
	})
	handled(t, made, accept(t, inbox))
	require.Equal(t, 2, subscriber.end())
	require.Eventually(t, func() bool { return subscriber.open() == 2 }, 30*time.Second, 10*time.Millisecond)
	handled(t, made, accept(t, inbox))
}

func TestASubscriberRefuses(t *testing.T) {
	t.Parallel()
	config, err := onALaptop(t).config(webhook.Work{Handle: receivertest.Succeed})
	require.NoError(t, err)
	config.Subscriber = &flaky{refuse: errors.New("no such queue")}
	_, err = watermillinbox.New(t.Context(), config)
	require.ErrorContains(t, err, "no such queue")
}
