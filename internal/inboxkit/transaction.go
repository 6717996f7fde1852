package inboxkit

import (
	"context"
	"errors"

	"github.com/dispensary-go/dispensary/webhook"
)

// WithTransaction returns the context of an attempt whose handler may call [InTransaction]
// with a transaction of type T. done reports whether the handler did: the outcome is then
// stored already, and there is nothing left to record.
//
// commit must call write and store the attempt, a successful one, in the same transaction. Its
// context is the context of the handler. If that context ends, commit must still find out
// whether the event was stored.
func WithTransaction[T any](ctx context.Context, t Task, commit func(ctx context.Context, a webhook.Attempt, write func(context.Context, T) error) error) (_ context.Context, done func() bool) {
	x := &transaction[T]{commit: commit, attempt: webhook.Attempt{
		Delivery: t.Delivery, Number: t.Attempt, Result: webhook.ResultHandled, Object: t.Object,
	}}
	return context.WithValue(ctx, transactionKey{}, x), x.committed
}

// InTransaction writes rows of your program and stores the event as handled, in one
// transaction: the rows exist exactly if the event counts as handled. ctx must be the context
// of the handler.
//
// It fails if ctx is not from a handler of an engine with transactions of type T, and on a
// second call after a successful one.
//
// If the handler returns an error after a successful call, the event still counts as handled.
// The worker logs the error.
func InTransaction[T any](ctx context.Context, write func(context.Context, T) error) error {
	x, _ := ctx.Value(transactionKey{}).(*transaction[T])
	switch {
	case x == nil:
		return errors.New("engine: InTransaction: the context is not from a handler of this inbox")
	case x.done:
		return errors.New("engine: InTransaction: called twice in one attempt")
	}
	err := x.commit(ctx, x.attempt, write)
	x.done = err == nil
	return err
}

// transaction is an attempt whose outcome the handler may store itself.
type transaction[T any] struct {
	attempt webhook.Attempt
	commit  func(context.Context, webhook.Attempt, func(context.Context, T) error) error
	done    bool
}

func (x *transaction[T]) committed() bool { return x.done }

type transactionKey struct{}

// committed reports whether the handler of this context has stored its outcome.
func committed(ctx context.Context) bool {
	x, _ := ctx.Value(transactionKey{}).(interface{ committed() bool })
	return x != nil && x.committed()
}
