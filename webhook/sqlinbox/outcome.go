package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// recordWithRetry stores the outcome of an attempt, and returns the event that the
// handler is given next, if there is one.
func (i *Inbox) recordWithRetry(c *claim, a webhook.Attempt) (next *claim, err error) {
	var sealed []byte // what a dead letter keeps of its error
	if a.Result == webhook.ResultDead {
		sealed = engine.SealError(i.config.Seal, a.Key, a.Err)
	}
	err = i.life.Record(i.worker.Work().Logger, i.config.margin, func() error {
		err := i.writer.doFor(c, func(t *tx) error {
			next = nil
			t.vacant = append(t.vacant, &next)
			return i.recordOutcome(t, c, a, sealed)
		})
		if errors.Is(err, ErrReplaced) { // for good, so the claim ends
			err = fmt.Errorf("%w: %w", engine.ErrClaimLost, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// recordOutcome stores an outcome, if the event still belongs to the claim, and makes
// the next event of its ordering key ready.
func (i *Inbox) recordOutcome(t *tx, c *claim, a webhook.Attempt, sealedError []byte) error {
	now := i.now()
	changed, err := updateRow(t, c, a, sealedError, now)
	switch {
	case err != nil:
		return err
	case changed == 0:
		return engine.ErrClaimLost
	}
	if a.Object != "" && a.Result == webhook.ResultHandled {
		err := t.exec(`INSERT INTO dispensary_inbox_newest (object, at, noted_at) VALUES (?, ?, ?)
			ON CONFLICT (object) DO UPDATE SET at = max(at, excluded.at), noted_at = excluded.noted_at`,
			string(a.Object), a.CreatedAt.UnixMicro(), now)
		if err != nil {
			return err
		}
	}
	if c.orderingKey != "" {
		return promoteNext(t, c.orderingKey)
	}
	t.ready = t.ready || a.Result != webhook.ResultHandled
	return nil
}

// updateRow changes the row of an event, and returns how many rows that were.
func updateRow(t *tx, c *claim, a webhook.Attempt, sealedError []byte, now int64) (int64, error) {
	waiting := stateReady
	if c.orderingKey != "" {
		waiting = stateInLine // promoteNext finds the oldest, which it may not be
	}
	const update, held = `UPDATE dispensary_inbox SET state = ?, due_at = ?, `, ` WHERE seq = ? AND claim = ? AND state = 4`
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		changed, err := t.changed(update+`reason = NULL`+held, stateDone, now, c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, drop(t, c.seq)
	case webhook.ResultDead:
		changed, err := t.changed(update+`attempts = ?, reason = ?`+held, stateDead, now, a.Number, a.Reason(), c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, t.exec("UPDATE dispensary_inbox_bodies SET error = ? WHERE seq = ?", sealedError, c.seq)
	case webhook.ResultReturned:
		return t.changed(update+`attempts = attempts - 1`+held, waiting, now, c.seq, c.number)
	}
	due := now + a.RetryIn.Microseconds() + 1 // never before its time
	return t.changed(update+`reason = ?`+held, waiting, due, a.Reason(), c.seq, c.number)
}

// drop deletes what was sealed of an event.
func drop(t *tx, seq int64) error {
	return t.exec("DELETE FROM dispensary_inbox_bodies WHERE seq = ?", seq)
}

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
