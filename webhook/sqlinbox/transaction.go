package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Tx is the transaction that a function of [InTransaction] writes in.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// InTransaction writes rows of the program's own, in the same file, and notes
// the event as handled, in one transaction: whatever happens, the rows are there
// exactly if the event counts as handled, so that they are written exactly once.
// ctx is that of the handler.
//
// Call it as the last thing a handler does and return its error. If write fails,
// or panics, nothing is written and the attempt has failed. An error of the
// handler after it comes too late: the event has been handled.
//
// The transaction is the one of the inbox, and accepts wait for it: do what
// takes time before, and do not call the inbox from write. It may be called
// again, after what it wrote was rolled back. It fails for a context that is not
// a handler's, and if it is called a second time.
func InTransaction(ctx context.Context, write func(context.Context, Tx) error) error {
	p, _ := ctx.Value(pendingKey{}).(*pending)
	switch {
	case p == nil:
		return errors.New("sqlinbox: InTransaction: the context is not that of a handler of this inbox")
	case p.noted:
		return errors.New("sqlinbox: InTransaction: called twice")
	}
	a := webhook.Attempt{Delivery: p.task.Delivery, Result: webhook.ResultHandled, Object: p.task.Object}
	// Not the handler's context: its end must not leave open what became of it.
	err := p.inbox.writer.doFor(p.claim, func(t *tx) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.inbox.note(t, p.claim, a, nil); err != nil {
			return err
		}
		return apart(func() error { return write(ctx, t.conn) })
	})
	p.noted = err == nil
	return err
}

// apart runs a function of the program on a goroutine of its own, so that
// neither a panic nor a runtime.Goexit ends the writer.
func apart(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("sqlinbox: InTransaction: goroutine was ended by runtime.Goexit")
		defer func() {
			if caught := recover(); caught != nil {
				err = fmt.Errorf("sqlinbox: InTransaction: %w with a value of type %T\n%s", webhook.ErrPanic, caught, debug.Stack())
			}
			done <- err
		}()
		err = f()
	}()
	return <-done
}

type pendingKey struct{}

// afterwards returns the handler without the errors that come too late: the
// event has been handled, and would be told of as one that failed.
func afterwards(handle webhook.HandlerFunc, logger *slog.Logger) webhook.HandlerFunc {
	if handle == nil {
		return nil
	}
	return func(ctx context.Context, event events.Event) error {
		err := handle(ctx, event)
		p, _ := ctx.Value(pendingKey{}).(*pending)
		if err == nil || p == nil || !p.noted {
			return err
		}
		if logger != nil {
			logger.LogAttrs(ctx, slog.LevelError, "webhook handler failed after its transaction",
				slog.String("event_id", event.ID), slog.String("reason", webhook.Attempt{Err: err}.Reason()))
		}
		return nil
	}
}

// pending is an attempt that InTransaction may note before it has ended.
type pending struct {
	inbox *Inbox
	claim *claim
	task  engine.Task
	noted bool
}
