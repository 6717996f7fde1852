package inboxkit

import (
	"context"
	"errors"

	"github.com/dispensary-go/dispensary/webhook"
)

// WithTransaction returns the context of an attempt whose handler may call
// [InTransaction] with a transaction of type T, and a function that reports whether
// it did: then the outcome is stored already, and there is nothing left to record.
//
// commit has to store the attempt, which is a successful one, in a transaction in
// which it calls write. Its context is the handler's, whose end must not leave open
// what became of the event.
func WithTransaction[T any](ctx context.Context, t Task, commit func(ctx context.Context, a webhook.Attempt, write func(context.Context, T) error) error) (_ context.Context, done func() bool) {
	x := &transaction[T]{commit: commit, attempt: webhook.Attempt{
		Delivery: t.Delivery, Number: t.Attempt, Result: webhook.ResultHandled, Object: t.Object,
	}}
	return context.WithValue(ctx, transactionKey{}, x), x.committed
}

// InTransaction writes rows of the program's own and stores the event as handled,
// in one transaction: whatever happens, the rows are there exactly if the event
// counts as handled. ctx is that of the handler. It fails for a context that is not
// a handler's of an engine with transactions of type T, and if it is called a second
// time after it succeeded.
//
// An error of the handler after it comes too late: the event has been handled. It is
// logged.
func InTransaction[T any](ctx context.Context, write func(context.Context, T) error) error {
	x, _ := ctx.Value(transactionKey{}).(*transaction[T])
	switch {
	case x == nil:
		return errors.New("engine: InTransaction: the context is not that of a handler of this inbox")
	case x.done:
		return errors.New("engine: InTransaction: called twice")
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

// committed reports that the handler of this context has stored its outcome.
func committed(ctx context.Context) bool {
	x, _ := ctx.Value(transactionKey{}).(interface{ committed() bool })
	return x != nil && x.committed()
}
