package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
)

// newStreams returns a new name for streams, which are deleted after the test.
func newStreams(t *testing.T) (address, name string, js jetstream.JetStream) {
	t.Helper()
	address = os.Getenv("DISPENSARY_TEST_NATS")
	if address == "" {
		t.Skip("DISPENSARY_TEST_NATS is not set")
	}
	conn, err := nats.Connect(address)
	require.NoError(t, err)
	js, err = jetstream.New(conn)
	require.NoError(t, err)
	name = "example_" + rand.Text()
	t.Cleanup(func() {
		for _, stream := range []string{name, settings{name: name}.deadLetters()} {
			assert.NoError(t, js.DeleteStream(context.Background(), stream))
		}
		conn.Close()
	})
	return address, name, js
}

func TestStory(t *testing.T) {
	t.Parallel()
	address, name, _ := newStreams(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, address, name))
	assert.Equal(t, `10 orders were published, and acknowledged
all but one were handled
that is a dead letter: order.placed, webhook event dead: attempt 1: permanent: no_warehouse
`, out.String())
}

// A backlog must wait in the stream. NATS would redeliver events that wait in a replica.
func TestBacklogWaitsInStream(t *testing.T) {
	t.Parallel()
	address, name, js := newStreams(t)
	replica := &receiver{settings: settings{address: address, name: name, handle: func(context.Context, events.OrderEvent) error { return nil }}}
	require.NoError(t, replica.connect(t.Context()))
	defer replica.conn.Close()
	backlog := make([]*message.Message, 2*subscriptions*replicas)
	for n := range backlog {
		backlog[n] = message.NewMessage(rand.Text(), nil)
	}
	require.NoError(t, replica.publisher.Publish(name, backlog...))
	waiting, err := replica.conn.QueueSubscribeSync(name+".deliver", name)
	require.NoError(t, err)
	for range subscriptions * replicas {
		_, err := waiting.NextMsg(time.Minute)
		require.NoError(t, err)
	}
	consumer, err := js.PushConsumer(t.Context(), name, name)
	require.NoError(t, err)
	info, err := consumer.Info(t.Context())
	require.NoError(t, err)
	assert.Equal(t, subscriptions*replicas, info.NumAckPending)
	assert.Len(t, backlog[subscriptions*replicas:], int(info.NumPending))
}
