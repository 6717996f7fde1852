package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/dispensary-go/dispensary/webhook"
)

// Errors of a [Consumer] that does not handle events. See [Consumer.Err].
var (
	// ErrNotSubscribed: the router is not running, or has been closed.
	ErrNotSubscribed = errors.New("publish: consumer is not subscribed, because its router is not running")

	// ErrSubscriptionClosed: a subscription has closed, but the program closed neither the router
	// nor its subscriber. Watermill does not subscribe again, so restart the process.
	ErrSubscriptionClosed = errors.New("publish: subscription closed by itself")
)

// Stats counts the subscriptions and messages of a [Consumer].
type Stats struct {
	// Subscriptions is the number of subscriptions of the consumer. Open is the number of open
	// subscriptions.
	Subscriptions, Open int

	// Unrecorded is the number of messages whose dead letter could not be published. The broker
	// redelivers these messages.
	Unrecorded int

	// Overdue is the number of handlers in this process that ignore their timeout. Each of them
	// blocks a subscription: see [webhook.Observer].AttemptOverdue.
	Overdue int
}

// Stats returns the current counts of the consumer.
func (c *Consumer) Stats() Stats {
	c.subscriptions.mu.Lock()
	defer c.subscriptions.mu.Unlock()
	return Stats{
		Subscriptions: c.subscriptions.want, Open: c.subscriptions.open,
		Unrecorded: c.unrecorded.count(), Overdue: c.worker.Overdue(),
	}
}

// Err returns nil while all subscriptions are open. Use it in a health check. The error matches
// [ErrNotSubscribed], [ErrSubscriptionClosed] or the error of the subscriber.
func (c *Consumer) Err() error { return c.subscriptions.err() }

// subscriptions counts the open subscriptions of a consumer.
type subscriptions struct {
	subscriber message.Subscriber
	logger     *slog.Logger
	want       int

	closing atomic.Bool // set once the router closes its subscribers

	mu     sync.Mutex
	open   int
	failed error // of the first subscription that failed
}

func newSubscriptions(subscriber message.Subscriber, work webhook.Work) *subscriptions {
	return &subscriptions{subscriber: subscriber, logger: work.Logger, want: work.Workers}
}

func (s *subscriptions) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil && s.open < s.want {
		return ErrNotSubscribed
	}
	return s.failed
}

// began counts a subscription if err is nil.
func (s *subscriptions) began(ctx context.Context, handler string, err error) {
	if err != nil {
		s.fail(ctx, handler, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
}

func (s *subscriptions) ended() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
}

// fail stores and logs the failure of a subscription, unless the router or its context ends it.
func (s *subscriptions) fail(ctx context.Context, handler string, err error) {
	if ctx.Err() != nil || s.closing.Load() {
		return
	}
	err = fmt.Errorf("publish: subscription %s: %w", handler, err)
	s.mu.Lock()
	if s.failed == nil {
		s.failed = err
	}
	s.mu.Unlock()
	s.logger.ErrorContext(ctx, "webhook consumer stopped", "handler", handler, "reason", err.Error())
}

// watch returns the consumer's subscriber for one handler of the router.
func (s *subscriptions) watch(handler string) message.Subscriber {
	return &watched{Subscriber: s.subscriber, subscriptions: s, handler: handler}
}

// noteClose decorates all subscribers of the router, because other handlers can share the
// consumer's subscriber. The router closes subscribers only when it closes itself.
func (s *subscriptions) noteClose(subscriber message.Subscriber) (message.Subscriber, error) {
	return closeNoted{subscriber, &s.closing}, nil
}

type closeNoted struct {
	message.Subscriber
	closing *atomic.Bool
}

// Close implements [message.Subscriber].
func (c closeNoted) Close() error {
	c.closing.Store(true)
	return c.Subscriber.Close()
}

// watched is a subscriber that reports if its subscription closes by itself.
type watched struct {
	message.Subscriber
	subscriptions *subscriptions
	handler       string
}

// Subscribe implements [message.Subscriber].
func (w *watched) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	messages, err := w.Subscriber.Subscribe(ctx, topic)
	w.subscriptions.began(ctx, w.handler, err)
	if err != nil {
		return nil, err
	}
	forwarded := make(chan *message.Message)
	go func() {
		defer close(forwarded)
		for msg := range messages {
			forwarded <- msg // the router receives until the channel is closed
		}
		w.subscriptions.ended()
		w.subscriptions.fail(ctx, w.handler, ErrSubscriptionClosed)
	}()
	return forwarded, nil
}

// String returns the name of the subscriber in Watermill. Dead letters contain it.
func (w *watched) String() string {
	if named, ok := w.Subscriber.(fmt.Stringer); ok {
		return named.String()
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", w.Subscriber), "*")
}
