package publish

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// poisoned are the metadata that a dead letter has beside those of its event. They have
// the names of Watermill's poison queue, so that tools made for it show them.
var poisoned = []string{
	middleware.ReasonForPoisonedKey, middleware.PoisonedTopicKey, middleware.PoisonedHandlerKey, middleware.PoisonedSubscriberKey,
}

// Replay returns a copy of a dead letter to publish to [Config.Topic], so that the event
// is handled again with the full number of attempts. It has an ID of its own, because a
// broker may drop a message whose ID it knows, and confirm it. Acknowledge the dead
// letter after the copy is published.
func Replay(dead *message.Message) *message.Message {
	again := dead.Copy()
	again.UUID = watermill.NewUUID()
	for _, name := range poisoned {
		delete(again.Metadata, name)
	}
	return again
}

// bury publishes a dead letter: the message as received, with the reason in its metadata.
// Its ID is new. JetStream would drop one with the ID of the event if both topics are in
// one stream, and the second dead letter of an event that was replayed within Duplicates.
func (c *Consumer) bury(ctx context.Context, msg *message.Message, a webhook.Attempt) error {
	dead := message.NewMessageWithContext(ctx, watermill.NewUUID(), msg.Payload)
	for name, value := range msg.Metadata {
		dead.Metadata.Set(name, value)
	}
	for n, value := range []string{
		(&attemptError{a}).Error(), message.SubscribeTopicFromCtx(ctx), message.HandlerNameFromCtx(ctx), message.SubscriberNameFromCtx(ctx),
	} {
		dead.Metadata.Set(poisoned[n], value)
	}
	err := safecall.Call(func() error { return c.config.DeadLetters.Publish(c.config.DeadLetterTopic, dead) })
	if err != nil {
		return fmt.Errorf("publish: dead letter: %w", err)
	}
	return nil
}
