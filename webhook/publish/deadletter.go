package publish

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/webhook"
)

// poisoned are the additional metadata keys of a dead letter. They equal the keys of Watermill's
// poison queue, so its tools show them.
var poisoned = []string{
	middleware.ReasonForPoisonedKey, middleware.PoisonedTopicKey, middleware.PoisonedHandlerKey, middleware.PoisonedSubscriberKey,
}

// Replay returns a copy of a dead letter. Publish the copy to [Config.Topic] to handle the
// event again, with the full number of attempts, and then acknowledge the dead letter. The
// copy has a new ID, because a broker may confirm a message with a known ID and drop it.
func Replay(dead *message.Message) *message.Message {
	again := dead.Copy()
	again.UUID = watermill.NewUUID()
	for _, name := range poisoned {
		delete(again.Metadata, name)
	}
	return again
}

// publishDeadLetter publishes a dead letter: the message as received, with the reason in its
// metadata and a new ID. JetStream would drop a dead letter with the ID of the event if both topics
// are in one stream. It would also drop the second dead letter of an event replayed within
// Duplicates.
func (c *Consumer) publishDeadLetter(ctx context.Context, msg *message.Message, a webhook.Attempt) error {
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
