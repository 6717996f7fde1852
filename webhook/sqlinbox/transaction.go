package sqlinbox

import (
	"context"
	"database/sql"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Tx is the transaction that a function of [InTransaction] writes in.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// InTransaction writes rows of the program's own, in the same file, and stores
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
	return engine.InTransaction(ctx, write)
}

// inTransaction stores the outcome of the event of a claim, together with what the
// program writes.
func (i *Inbox) inTransaction(c *claim) func(context.Context, webhook.Attempt, func(context.Context, Tx) error) error {
	return func(ctx context.Context, a webhook.Attempt, write func(context.Context, Tx) error) error {
		// Not the handler's context: its end must not leave open what became of it.
		return i.writer.doFor(c, func(t *tx) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := i.recordOutcome(t, c, a, nil); err != nil {
				return err
			}
			// Neither a panic nor a runtime.Goexit may end the writer.
			return safecall.Isolated(func() error { return write(ctx, t.conn) })
		})
	}
}
