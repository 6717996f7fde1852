package brokers_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/publish"
)

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
