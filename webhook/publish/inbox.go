package publish

import (
	"context"
	"fmt"
	"io"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// maxInFlight is how many events an [Inbox] publishes at a time. It bounds the memory that a broker
// without an answer can hold.
const maxInFlight = 256

// Config is what an [Inbox] is made of. Publisher, Topic and Seal are required.
type Config struct {
	// Publisher publishes to the broker. Its Publish must return only after the
	// broker has confirmed that it stored the message; see the package comment for
	// what that takes with each broker. It stays the caller's to close.
	Publisher message.Publisher

	// Topic is where events are published.
	Topic string

	// Seal seals the bodies; it is usually a [seal.KeyRing]. The consumer has to
	// have the same keys.
	Seal seal.AEAD

	// Order returns the ordering key that an event is published under, as
	// [webhook.ByPatient] does. Nil means [webhook.ByObject]. See [OrderingKey].
	Order func(webhook.Delivery, events.Event) webhook.OrderingKey
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Publisher == nil:
		return c, &api.ArgumentError{Field: "publish.Config.Publisher", Reason: "is missing"}
	case c.Topic == "":
		return c, &api.ArgumentError{Field: "publish.Config.Topic", Reason: "is missing"}
	case c.Seal == nil:
		return c, &api.ArgumentError{Field: "publish.Config.Seal", Reason: "is missing"}
	}
	if c.Order == nil {
		c.Order = webhook.ByObject
	}
	return c, nil
}

// Inbox is a [webhook.Inbox] that publishes events to a broker. It is safe for
// concurrent use, and has nothing to close.
type Inbox struct {
	checkpoints

	config Config
	slots  chan struct{}
}

// checkpoints are in memory.
type checkpoints = inboxkit.MemoryCheckpoints

var _ reconcile.Inbox = (*Inbox)(nil)

// New returns an inbox. It publishes nothing. Errors are [api.ArgumentError].
func New(c Config) (*Inbox, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Inbox{config: c, slots: make(chan struct{}, maxInFlight)}, nil
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "publish.Inbox") }

// Accept implements [webhook.Inbox]: it seals the body, publishes the event, and
// returns once the broker has confirmed it. Where ctx ends before that, the event may
// have been published all the same, and is published again when it is sent again.
//
// The error matches [webhook.ErrInboxFull] if 256 events are on their way to a broker that does
// not answer.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	msg, err := newMessage(ctx, i.config.Seal, i.config.Order, d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	if err := i.publish(ctx, msg); err != nil {
		return webhook.Receipt{}, err
	}
	return webhook.Receipt{Unchecked: true}, nil
}

// Missing implements [reconcile.Inbox]. It returns all keys, because the inbox does not know
// the published ones.
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	return inboxkit.Missing(keys, func(webhook.Key) bool { return false }), ctx.Err()
}

// publish waits for the broker until ctx ends. Publishers know no context, so that
// one that is held up keeps its slot until it returns.
func (i *Inbox) publish(ctx context.Context, msg *message.Message) error {
	select {
	case i.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: the broker has not confirmed %d events: %w", webhook.ErrInboxFull, maxInFlight, ctx.Err())
	}
	confirmed := make(chan error, 1)
	go safecall.Run(func() error { return i.config.Publisher.Publish(i.config.Topic, msg) }, func(err error) {
		<-i.slots
		confirmed <- err
	})
	select {
	case err := <-confirmed:
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("publish: the broker has not confirmed: %w", ctx.Err())
	}
}
