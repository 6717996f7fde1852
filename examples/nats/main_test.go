package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStory(t *testing.T) {
	t.Parallel()
	address := os.Getenv("DISPENSARY_TEST_NATS")
	if address == "" {
		t.Skip("DISPENSARY_TEST_NATS is not set")
	}
	conn, err := nats.Connect(address)
	require.NoError(t, err)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	name := "example_" + rand.Text()
	t.Cleanup(func() {
		for _, stream := range []string{name, settings{name: name}.deadLetters()} {
			assert.NoError(t, js.DeleteStream(context.Background(), stream))
		}
		conn.Close()
	})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, address, name))
	assert.Equal(t, `10 orders were published, and acknowledged
all but one were handled
that is a dead letter: order.placed, webhook event dead: attempt 1: permanent: no_warehouse
`, out.String())
}
