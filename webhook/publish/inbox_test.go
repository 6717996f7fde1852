package publish_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

// recorder is a publisher that keeps what is published.
type recorder struct {
	mu    sync.Mutex
	all   []*message.Message
	topic string
	err   error
	hold  chan struct{} // Publish returns once it is closed
}

func (r *recorder) Publish(topic string, messages ...*message.Message) error {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topic = topic
	if r.err == nil {
		r.all = append(r.all, messages...)
	}
	return r.err
}

func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *recorder) Close() error { return nil }

func (r *recorder) published() []*message.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*message.Message(nil), r.all...)
}

// keys returns the keys of the published messages.
func (r *recorder) keys() (keys []string) {
	for _, msg := range r.published() {
		keys = append(keys, msg.Metadata.Get(publish.MetadataKey))
	}
	return keys
}

func (r *recorder) ids() (ids []string) {
	for _, msg := range r.published() {
		ids = append(ids, msg.UUID)
	}
	return ids
}

// delivery makes the event with a number.
func delivery(n int, integration string) webhook.Delivery {
	return webhook.Delivery{
		Key:  webhook.Key{Environment: receivertest.Sandbox, EventID: fmt.Sprint("evt_", n), IntegrationID: integration},
		Type: events.TypePatientUpdated, ClinicID: "cl_1", CreatedAt: time.Unix(1_780_000_000, 0), ReceivedAt: time.Unix(1_780_000_001, 5),
		Body: receivertest.Body(n, integration),
	}
}

func newInbox(t *testing.T, publisher message.Publisher, change ...func(*publish.Config)) *publish.Inbox {
	t.Helper()
	ring, err := receivertest.FixedKeyRing()
	require.NoError(t, err)
	c := publish.Config{Publisher: publisher, Topic: "events", Seal: ring}
	for _, f := range change {
		f(&c)
	}
	inbox, err := publish.New(c)
	require.NoError(t, err)
	return inbox
}

func TestMessage(t *testing.T) {
	t.Parallel()
	broker := &recorder{}
	inbox := newInbox(t, broker, func(c *publish.Config) { c.Order = webhook.ByPatient })
	d := delivery(7, "in_1")
	receipt, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	assert.Equal(t, webhook.Receipt{Unchecked: true}, receipt)

	msg := broker.published()[0]
	event, err := d.Event()
	require.NoError(t, err)
	assert.Equal(t, "events", broker.topic)
	assert.Equal(t, "us/sandbox/evt_7/in_1", msg.UUID, "a broker can drop repeats")
	assert.Equal(t, message.Metadata{
		"event_key":    "us/sandbox/evt_7/in_1",
		"ordering_key": string(webhook.ByPatient(d, event)),
		"event_type":   "patient.updated",
		"clinic_id":    "cl_1",
		"created_at":   "2026-05-28T20:26:40Z",
		"received_at":  "2026-05-28T20:26:41.000000005Z",
	}, msg.Metadata)
	orderingKey, err := publish.OrderingKey("events", msg)
	require.NoError(t, err)
	assert.Equal(t, msg.Metadata["ordering_key"], orderingKey)
	assert.NotEmpty(t, orderingKey)

	assert.NotContains(t, string(msg.Payload), receivertest.Canary)
	ring, err := receivertest.FixedKeyRing()
	require.NoError(t, err)
	body, err := inboxkit.OpenBody(ring, d.Key, msg.Payload)
	require.NoError(t, err)
	assert.Equal(t, d.Body, body)
	_, err = inboxkit.OpenBody(ring, delivery(8, "in_1").Key, msg.Payload)
	require.ErrorIs(t, err, webhook.ErrBodyLost, "it belongs to its key")
}

// An event of which nothing can be read but the key is published like any other.
func TestMessageOfAnyEvent(t *testing.T) {
	t.Parallel()
	broker := &recorder{}
	inbox := newInbox(t, broker)
	d := delivery(1, "")
	d.Body, d.CreatedAt = []byte("no event"), time.Time{}
	_, err := inbox.Accept(t.Context(), d)
	require.NoError(t, err)
	assert.NotContains(t, broker.published()[0].Metadata, publish.MetadataCreatedAt)
}

func TestAcceptFails(t *testing.T) {
	t.Parallel()
	broker := &recorder{err: assert.AnError}
	_, err := newInbox(t, broker).Accept(t.Context(), delivery(1, "in_1"))
	require.ErrorIs(t, err, assert.AnError)
	_, err = newInbox(t, panicking{}).Accept(t.Context(), delivery(1, "in_1"))
	require.ErrorIs(t, err, safecall.ErrPanic)
	assert.NotContains(t, err.Error(), receivertest.Canary)
	broker.err = nil
	inbox := newInbox(t, broker)
	missing, err := inbox.Missing(t.Context(), append(keys(2), keys(3)...))
	require.NoError(t, err)
	assert.Equal(t, keys(3), missing, "all keys")
}

type panicking struct{}

func (panicking) Publish(string, ...*message.Message) error { panic(receivertest.Canary) }
func (panicking) Close() error                              { return nil }

// A broker that does not confirm blocks a caller no longer than their context lasts,
// and no more events than the configuration allows.
func TestAcceptDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broker := &recorder{hold: make(chan struct{})}
		inbox := newInbox(t, broker)
		accept := func(n int) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := inbox.Accept(ctx, delivery(n, "in_1"))
			return err
		}
		const most = 256
		for n := range most {
			err := accept(n)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, webhook.ErrInboxFull)
		}
		require.ErrorIs(t, accept(most), webhook.ErrInboxFull)
		close(broker.hold)
		synctest.Wait()
		require.NoError(t, accept(most+1))
		assert.Len(t, broker.ids(), most+1)
		assert.NotContains(t, broker.ids(), "us/sandbox/evt_256/in_1")
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	ring := receivertest.KeyRing(t)
	for field, c := range map[string]publish.Config{
		"publish.Config.Publisher": {Topic: "events", Seal: ring},
		"publish.Config.Topic":     {Publisher: &recorder{}, Seal: ring},
		"publish.Config.Seal":      {Publisher: &recorder{}, Topic: "events"},
	} {
		_, err := publish.New(c)
		var wrong *api.ArgumentError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, field, wrong.Field)
	}
	assert.Equal(t, "publish.Inbox", fmt.Sprintf("%+v", newInbox(t, &recorder{})))
}
