package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheStory(t *testing.T) {
	t.Parallel()
	url := os.Getenv("DISPENSARY_TEST_NATS")
	if url == "" {
		t.Skip("DISPENSARY_TEST_NATS is not set")
	}
	name := "example" + strings.ToLower(rand.Text()[:10])
	t.Cleanup(func() { remove(t, url, name) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	require.NoError(t, run(ctx, &out, url, name))
	assert.Equal(t, "10 orders were acknowledged\nall of them were handled\n", out.String())
}

// remove deletes what the story has made in NATS. A server that is busy may not
// answer the first time.
func remove(t *testing.T, url, name string) {
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	for _, stream := range []string{name, "KV_" + name, "KV_" + name + "_kept"} {
		assert.Eventually(t, func() bool {
			err := js.DeleteStream(context.Background(), stream)
			return err == nil || errors.Is(err, jetstream.ErrStreamNotFound)
		}, time.Minute, 100*time.Millisecond, stream)
	}
}
