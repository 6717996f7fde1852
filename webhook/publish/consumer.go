package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Defaults of [ConsumerConfig].Work.Retry. They are shorter than those of
// [webhook.RetryPolicy], because a broker waits for its acknowledgement meanwhile.
const (
	DefaultMaxAttempts = 5
	DefaultBackOff     = time.Second
	DefaultMaxBackOff  = 10 * time.Second
)

// noteTimeout is how long noting a handled event in the ledger may take.
const noteTimeout = 10 * time.Second

// ConsumerConfig is what [Consume] needs. Subscriber, Topic, DeadLetters,
// DeadLetterTopic, Seal and Work.Handle are required.
type ConsumerConfig struct {
	// Subscriber receives from the broker. It must acknowledge a message only after
	// Watermill has, and with each broker needs the settings that the package comment
	// names. It stays the caller's to close.
	Subscriber message.Subscriber

	// Topic is the [Config.Topic] of the inbox.
	Topic string

	// DeadLetters publishes what is given up, under DeadLetterTopic: the message as it
	// came, sealed, with the reason in the metadata that Watermill's poison queue
	// writes. Publishing it to Topic again handles it again.
	DeadLetters     message.Publisher
	DeadLetterTopic string

	// Seal opens the bodies. It has the keys of [Config.Seal].
	Seal seal.AEAD

	// Work says how events are handled. Workers is how many subscriptions are made, of
	// which each hands out as many events at a time as the driver says, mostly one.
	// The zero values of Retry are [DefaultMaxAttempts], [DefaultBackOff] and
	// [DefaultMaxBackOff]. Order and Stale must not be set: order is the broker's, by
	// [Config.Order].
	Work webhook.Work

	// Ledger remembers which events were handled, so that a message that comes again is
	// not. Nil means that it is handled again. It may be the ledger of the inbox. While
	// its database is away, messages go back to the broker.
	Ledger *Ledger

	// Name is the name of the handlers in Watermill's router, and in the ledger that of
	// those who have handled an event: consumers that each handle all events need
	// different names. Empty means Topic.
	Name string
}

func (c ConsumerConfig) withDefaults() (ConsumerConfig, error) {
	missing := func(field string) (ConsumerConfig, error) {
		return c, &api.ArgumentError{Field: "publish.ConsumerConfig." + field, Reason: "is missing"}
	}
	switch {
	case c.Subscriber == nil:
		return missing("Subscriber")
	case c.Topic == "":
		return missing("Topic")
	case c.DeadLetters == nil:
		return missing("DeadLetters")
	case c.DeadLetterTopic == "":
		return missing("DeadLetterTopic")
	case c.Seal == nil:
		return missing("Seal")
	case c.Work.Order != nil || c.Work.Stale != webhook.StaleIgnore:
		return c, &api.ArgumentError{Field: "publish.ConsumerConfig.Work", Reason: "has Order or Stale: the order is the broker's, by publish.Config.Order"}
	}
	c.Name = cmp.Or(c.Name, c.Topic)
	c.Work.Retry = withRetryDefaults(c.Work.Retry)
	return c, nil
}

func withRetryDefaults(p webhook.RetryPolicy) webhook.RetryPolicy {
	p.MaxAttempts = cmp.Or(p.MaxAttempts, DefaultMaxAttempts)
	p.BackOff = cmp.Or(p.BackOff, DefaultBackOff)
	p.MaxBackOff = cmp.Or(p.MaxBackOff, DefaultMaxBackOff)
	return p
}

// MaxHandling returns how long all attempts to handle an event and the waits between
// them may take. The broker has to wait at least as long for an acknowledgement before
// it hands the event to another consumer.
func MaxHandling(w webhook.Work) time.Duration {
	retry := withRetryDefaults(w.Retry)
	total := time.Duration(retry.MaxAttempts)*cmp.Or(w.HandlerTimeout, webhook.DefaultHandlerTimeout) + noteTimeout
	for n, wait := 1, retry.BackOff; n < retry.MaxAttempts; n++ {
		wait = min(wait, retry.MaxBackOff)
		total += wait
		wait *= 2
	}
	return total
}

// Consume adds handlers to the router that open, decode and handle what an [Inbox] has
// published: until it is handled, or until it is given up and published as a dead
// letter. The message is acknowledged then, and not before. Call it before router.Run.
// Errors are [api.ArgumentError].
func Consume(router *message.Router, c ConsumerConfig) error {
	if router == nil {
		return &api.ArgumentError{Field: "publish.Consume router", Reason: "is nil"}
	}
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	worker, err := engine.NewWorker(c.Work)
	if err != nil {
		return err
	}
	consumer := &consumer{config: c, worker: worker, retry: worker.Work().Retry}
	deadLetters, err := middleware.PoisonQueueWithFilter(c.DeadLetters, c.DeadLetterTopic, isDead)
	if err != nil {
		return err
	}
	for n := range worker.Work().Workers {
		name := c.Name
		if n > 0 {
			name = fmt.Sprintf("%s-%d", c.Name, n+1)
		}
		router.AddConsumerHandler(name, c.Topic, c.Subscriber, consumer.handle).AddMiddleware(deadLetters)
	}
	return nil
}

type consumer struct {
	config ConsumerConfig
	worker *engine.Worker
	retry  webhook.RetryPolicy
}

// handle makes the attempts to handle a message. Without an error it is
// acknowledged; with one that isDead it is published as a dead letter; with another
// one the broker delivers it again.
func (c *consumer) handle(msg *message.Message) error {
	ctx := msg.Context()
	task := engine.Task{}
	task.Delivery, task.Err = readMessage(c.config.Seal, msg)
	if handled, err := c.handled(ctx, task); handled || err != nil {
		return c.postpone(ctx, err)
	}
	for {
		task.Attempt++
		var made webhook.Attempt
		err := c.worker.Do(ctx, task, func(a webhook.Attempt) error {
			made = a
			return c.note(ctx, a)
		})
		switch {
		case err != nil: // handled, and not noted
			return c.postpone(ctx, err)
		case made.Err == nil:
			return nil
		case made.Result != webhook.ResultFailed:
			return &attemptError{made}
		}
		if !pause(ctx, made.RetryIn) {
			return &attemptError{made}
		}
	}
}

// handled reports a message that the ledger knows.
func (c *consumer) handled(ctx context.Context, t engine.Task) (bool, error) {
	if c.config.Ledger == nil || t.Err != nil {
		return false, nil
	}
	missing, err := c.config.Ledger.missing(ctx, handledBy(c.config.Name), []webhook.Key{t.Key})
	return err == nil && len(missing) == 0, err
}

// note writes down that an event was handled, even if ctx has ended meanwhile.
func (c *consumer) note(ctx context.Context, a webhook.Attempt) error {
	if c.config.Ledger == nil || a.Result != webhook.ResultHandled {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	return c.config.Ledger.add(ctx, handledBy(c.config.Name), a.Key)
}

// postpone returns err after a while: brokers deliver at once what is not
// acknowledged, and a ledger that is away is not back at once.
func (c *consumer) postpone(ctx context.Context, err error) error {
	if err != nil {
		pause(ctx, c.retry.BackOff)
	}
	return err
}

// attemptError is the error of a failed attempt that Watermill gets. Watermill puts it
// into logs and into the metadata of dead letters, so its text is not that of the
// handler's error, which may repeat patient data.
type attemptError struct{ attempt webhook.Attempt }

func (e *attemptError) Error() string {
	return fmt.Sprintf("webhook event %s: attempt %d: %s", e.attempt.Result, e.attempt.Number, e.attempt.Reason())
}

// Is tells a handler that was told to stop, which Watermill does not log, from one
// that failed.
func (e *attemptError) Is(target error) bool { return errors.Is(e.attempt.Err, target) }

// isDead reports an event that no further attempt is made for.
func isDead(err error) bool {
	var failed *attemptError
	return errors.As(err, &failed) && failed.attempt.Result == webhook.ResultDead
}
