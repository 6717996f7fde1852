package publish

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

// Handler returns a handler for Watermill's router. It decrypts and decodes a message of an
// [Inbox], and makes one attempt to handle its event. Middleware of the router makes the retries
// and publishes the dead letters: see "Retries and dead letters" in the package comment.
//
// The key ring must have the keys of [Config.Seal]. Work can set Handle, HandlerTimeout, Logger
// and Observer. Errors are [*api.ArgumentError].
//
// [webhook.Attempt].Number counts from 1 with each delivery of the message. RetryIn is 0. The
// last attempt of an event has the result [webhook.ResultFailed], and [webhook.ResultDead] only if
// its error is permanent.
func Handler(keys seal.AEAD, work webhook.Work) (message.NoPublishHandlerFunc, error) {
	switch {
	case keys == nil:
		return nil, &api.ArgumentError{Field: "publish.Handler keys", Reason: "is missing"}
	case work.Order != nil || work.Stale != webhook.StalePolicyIgnore:
		return nil, &api.ArgumentError{Field: "publish.Handler work", Reason: "must not set Order or Stale: the broker orders events by publish.Config.Order"}
	case work.Start != nil || work.Workers != 0 || work.Retry != webhook.RetryPolicy{}:
		return nil, &api.ArgumentError{Field: "publish.Handler work", Reason: "must not set Start, Workers or Retry: the router decides them"}
	}
	work.Retry.MaxAttempts = inboxkit.CallerRetries
	worker, err := inboxkit.NewWorker(work)
	if err != nil {
		return nil, err
	}
	return func(msg *message.Message) error { return attempt(worker, keys, msg) }, nil
}

// attemptKey is the context key for the number of attempts since the message was delivered.
type attemptKey struct{}

func attempt(worker *inboxkit.Worker, keys seal.AEAD, msg *message.Message) error {
	before, _ := msg.Context().Value(attemptKey{}).(int)
	task := inboxkit.Task{Attempt: before + 1}
	task.Delivery, task.Err = readMessage(keys, msg)
	var made webhook.Attempt
	_ = worker.Do(msg.Context(), task, func(a webhook.Attempt) error { made = a; return nil })
	msg.SetContext(context.WithValue(msg.Context(), attemptKey{}, task.Attempt))
	if made.Err == nil {
		return nil
	}
	return &attemptError{made}
}

// ShouldRetry reports whether an event can succeed in another attempt. Use it as ShouldRetry of
// [middleware.Retry].
func ShouldRetry(p middleware.RetryParams) bool {
	var failed *attemptError
	return !errors.As(p.Err, &failed) || failed.attempt.Result == webhook.ResultFailed
}

// IsDead reports whether err is the error of the last attempt. Use it as the filter of
// [middleware.PoisonQueueWithFilter]. All other errors return the message to the broker: for
// example, Retry returns the cause of the router's context if the router stops.
func IsDead(err error) bool {
	var failed *attemptError
	return errors.As(err, &failed) && failed.attempt.Result != webhook.ResultReturned
}

// DeadLetters returns a publisher that publishes copies of messages with new IDs, even if their
// context has ended. JetStream would drop a dead letter with the ID of its event if both topics
// are in one stream.
//
// To handle the event of a dead letter again, publish the dead letter with this publisher to
// [Config.Topic], and then acknowledge it.
func DeadLetters(p message.Publisher) message.Publisher { return renaming{p} }

type renaming struct{ message.Publisher }

// Publish implements [message.Publisher].
func (r renaming) Publish(topic string, messages ...*message.Message) error {
	copies := make([]*message.Message, len(messages))
	for n, msg := range messages {
		copies[n] = msg.Copy()
		copies[n].UUID = watermill.NewUUID()
		copies[n].SetContext(context.WithoutCancel(msg.Context()))
	}
	return r.Publisher.Publish(topic, copies...)
}

// attemptError is the error of an attempt for Watermill's logs and for the metadata of dead
// letters. Its text is the reason, because the text of the handler's error may repeat
// patient data.
type attemptError struct{ attempt webhook.Attempt }

func (e *attemptError) Error() string {
	return fmt.Sprintf("webhook event %s: attempt %d: %s", e.attempt.Result, e.attempt.Number, e.attempt.Reason())
}

// Is reports whether the handler's error matches target. Watermill does not log a canceled
// handler.
func (e *attemptError) Is(target error) bool { return errors.Is(e.attempt.Err, target) }
