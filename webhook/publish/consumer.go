package publish

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Defaults of [ConsumerConfig].Work. The retries are shorter than in [webhook.RetryPolicy], because
// the broker waits for the acknowledgement meanwhile.
const (
	defaultMaxAttempts    = 5
	defaultBackOff        = time.Second
	defaultMaxBackOff     = 10 * time.Second
	defaultHandlerTimeout = time.Minute // of webhook.Work
)

// ackMargin is the time for the acknowledgement in [MaxHandling].
const ackMargin = 10 * time.Second

// ConsumerConfig configures [Consume]. Subscriber, Topic, DeadLetters, DeadLetterTopic, Seal and
// Work.Handle are required.
type ConsumerConfig struct {
	// Subscriber receives messages from the broker. It must acknowledge a message only after
	// Watermill has acknowledged it. The package comment lists the settings for each broker. You
	// close the subscriber yourself.
	Subscriber message.Subscriber

	// Topic is the [Config.Topic] of the inbox.
	Topic string

	// DeadLetters publishes dead letters to DeadLetterTopic: see [Replay]. If it fails, the
	// message returns to the broker after a backoff as in Work.Retry. The event then stays a dead
	// letter, and this process publishes it again without calling the handler.
	DeadLetters     message.Publisher
	DeadLetterTopic string

	// Seal decrypts the bodies. It must have the keys of [Config.Seal].
	Seal seal.AEAD

	// Work configures the handling of events. Workers is the number of subscriptions. The driver
	// decides how many events each subscription delivers at a time, usually one. The zero value
	// of Retry means 5 attempts, and waits of 1 second up to 10 seconds. Order and Stale must not
	// be set, because the broker orders events by [Config.Order].
	Work webhook.Work

	// Name is the name of the handlers in Watermill's router. Empty means Topic.
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
	case c.Work.Order != nil || c.Work.Stale != webhook.StalePolicyIgnore:
		return c, &api.ArgumentError{Field: "publish.ConsumerConfig.Work", Reason: "must not set Order or Stale: the broker orders events by publish.Config.Order"}
	}
	c.Name = cmp.Or(c.Name, c.Topic)
	c.Work.Retry = withRetryDefaults(c.Work.Retry)
	return c, nil
}

func withRetryDefaults(p webhook.RetryPolicy) webhook.RetryPolicy {
	p.MaxAttempts = cmp.Or(p.MaxAttempts, defaultMaxAttempts)
	p.BackOff = cmp.Or(p.BackOff, defaultBackOff)
	p.MaxBackOff = cmp.Or(p.MaxBackOff, defaultMaxBackOff)
	return p
}

// MaxHandling returns the longest time for all attempts to handle an event and the waits between
// them. The broker must wait at least that long for an acknowledgement before it delivers the
// event to another consumer. It includes 10 seconds for the acknowledgement, but not the time to
// publish a dead letter.
func MaxHandling(w webhook.Work) time.Duration {
	retry := withRetryDefaults(w.Retry)
	total := time.Duration(retry.MaxAttempts)*cmp.Or(w.HandlerTimeout, defaultHandlerTimeout) + ackMargin
	for n, wait := 1, retry.BackOff; n < retry.MaxAttempts; n++ {
		wait = min(wait, retry.MaxBackOff)
		total += wait
		wait *= 2
	}
	return total
}

// Consume adds handlers to the router that decrypt, decode and handle the messages of an
// [Inbox]. A message is acknowledged once its event is handled or published as a dead
// letter. Call Consume before router.Run, and close the router before its subscriber.
// Errors are [*api.ArgumentError].
func Consume(router *message.Router, c ConsumerConfig) (*Consumer, error) {
	if router == nil {
		return nil, &api.ArgumentError{Field: "publish.Consume router", Reason: "is nil"}
	}
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	worker, err := inboxkit.NewWorker(c.Work)
	if err != nil {
		return nil, err
	}
	work := worker.Work()
	consumer := &Consumer{config: c, worker: worker, retry: work.Retry}
	consumer.subscriptions = newSubscriptions(c.Subscriber, work)
	router.AddSubscriberDecorators(consumer.subscriptions.noteClose)
	for n := range work.Workers {
		name := c.Name
		if n > 0 {
			name = fmt.Sprintf("%s-%d", c.Name, n+1)
		}
		router.AddConsumerHandler(name, c.Topic, consumer.subscriptions.watch(name), consumer.handle)
	}
	return consumer, nil
}

// Consumer handles the messages of a router. It is safe for concurrent use.
type Consumer struct {
	config        ConsumerConfig
	worker        *inboxkit.Worker
	retry         webhook.RetryPolicy
	subscriptions *subscriptions
	unrecorded    unrecorded
}

// handle runs the attempts to handle a message. If it returns nil, Watermill acknowledges the
// message. After an error the broker redelivers it.
func (c *Consumer) handle(msg *message.Message) error {
	ctx := msg.Context()
	if err := ctx.Err(); err != nil {
		return err // an in-memory broker delivers until it is closed
	}
	task := inboxkit.Task{}
	task.Delivery, task.Err = readMessage(c.config.Seal, msg)
	if known, ok := c.unrecorded.find(msg.UUID); ok { // with task.Err the worker does not call the handler
		task.Err, task.Attempt = known.Err, known.Number-1
	}
	for {
		task.Attempt++
		var made webhook.Attempt
		err := c.worker.Do(ctx, task, func(a webhook.Attempt) error {
			made = a
			return c.record(msg, a)
		})
		switch {
		case err != nil || made.Err == nil || made.Result == webhook.ResultDead:
			return c.finish(ctx, msg, made, err)
		case made.Result != webhook.ResultFailed || !pause(ctx, made.RetryIn):
			return &attemptError{made}
		}
	}
}

// record publishes a dead letter, even if the context of msg has ended. All other outcomes are
// recorded by the acknowledgement of msg.
func (c *Consumer) record(msg *message.Message, a webhook.Attempt) error {
	if a.Result != webhook.ResultDead {
		return nil
	}
	return c.publishDeadLetter(context.WithoutCancel(msg.Context()), msg, a)
}

// finish ends the handling of a message. If recording failed, it remembers the outcome and returns
// err after a backoff: brokers redeliver immediately, but the dead letter topic needs time to
// recover.
func (c *Consumer) finish(ctx context.Context, msg *message.Message, a webhook.Attempt, err error) error {
	if err == nil {
		c.unrecorded.forget(msg.UUID)
		return nil
	}
	pause(ctx, c.retry.Wait(c.unrecorded.failed(msg.UUID, a)))
	return err
}

// pause waits for d. It reports whether d passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
