package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// recordWithRetry stores the outcome of an attempt, and returns the next event of the handler, or
// nil. While the disk is full, it waits: no other process can claim the event.
func (d *dispatcher) recordWithRetry(c *claim, a webhook.Attempt) (next *claim, err error) {
	var sealed []byte // the error of a dead letter
	if a.Result == webhook.ResultDead {
		sealed = inboxkit.SealError(d.config.Seal, a.Key, a.Err)
	}
	d.outcomes.Store(c.id(), nil)
	defer d.outcomes.Delete(c.id())
	err = d.life.Record(d.worker.Work().Logger, math.MaxInt64, func() error {
		err := d.writer.do(context.Background(), func(t *tx) error {
			next = nil
			t.vacant = append(t.vacant, &next)
			return d.recordOutcome(t, c, a, sealed)
		})
		if errors.Is(err, api.ErrReplaced) { // permanent, so the claim ends
			err = fmt.Errorf("%w: %w", engine.ErrClaimLost, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}

// recordOutcome stores an outcome if the claim is still valid, and makes the next event of the
// ordering key ready.
func (d *dispatcher) recordOutcome(t *tx, c *claim, a webhook.Attempt, sealedError []byte) error {
	now := d.config.micros()
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

// updateRow changes the row of an event. It returns 0 if the claim is no longer valid.
func updateRow(t *tx, c *claim, a webhook.Attempt, sealedError []byte, now int64) (int64, error) {
	waiting := stateReady
	if c.orderingKey != "" {
		waiting = stateBlocked // another event may be older
	}
	const update, held = `UPDATE dispensary_inbox SET state = ?, due_at = ?, `, ` WHERE seq = ? AND claim = ? AND state = 4`
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		changed, err := t.changed(update+`reason = NULL, failures = NULL, request_ids = NULL`+held, stateDone, now, c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		return changed, drop(t, c.seq)
	case webhook.ResultDead:
		kept := c.keep(a, now)
		changed, err := t.changed(update+`attempts = ?, reason = ?, failures = ?, request_ids = ?`+held,
			stateDead, now, a.Number, a.Reason(), kept, kept.requestIDs(), c.seq, c.number)
		if err != nil || changed == 0 {
			return changed, err
		}
		if err := t.exec("UPDATE dispensary_inbox_bodies SET error = ? WHERE seq = ?", sealedError, c.seq); err != nil {
			return 0, err
		}
		return changed, died(t, cause{a.Reason(), c.kind, c.clinicID}, c.receivedAt, now)
	case webhook.ResultReturned:
		return t.changed(update+`attempts = attempts - 1`+held, waiting, now, c.seq, c.number)
	}
	due, kept := now+a.RetryIn.Microseconds()+2, c.keep(a, now) // both are rounded down, so it is never early
	return t.changed(update+`reason = ?, failures = ?, request_ids = ?`+held, waiting, due, a.Reason(), kept, kept.requestIDs(), c.seq, c.number)
}

// drop deletes the body and the error of an event.
func drop(t *tx, seq int64) error {
	return t.exec("DELETE FROM dispensary_inbox_bodies WHERE seq = ?", seq)
}

// Tx is the transaction of a function of [InTransaction].
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// InTransaction writes your program's rows, in the same file, and stores the event as handled,
// in one transaction, so the rows are written exactly once. ctx must be the context of the
// handler.
//
// Call it last in a handler and return its error. If write fails or panics, nothing is stored
// and the attempt has failed. A later error of the handler has no effect.
//
// Accepts wait for the transaction, so do slow work before it. Do not call the inbox from
// write. InTransaction may call write again after a rollback. It fails if ctx is not from a
// handler, and on a second call.
func InTransaction(ctx context.Context, write func(context.Context, Tx) error) error {
	return inboxkit.InTransaction(ctx, write)
}

// inTransaction stores the outcome of a claim together with the program's rows.
func (d *dispatcher) inTransaction(c *claim) func(context.Context, webhook.Attempt, func(context.Context, Tx) error) error {
	return func(ctx context.Context, a webhook.Attempt, write func(context.Context, Tx) error) error {
		// The handler's context is not used, because its end would leave the outcome unknown.
		return d.writer.do(context.Background(), func(t *tx) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := d.recordOutcome(t, c, a, nil); err != nil {
				return err
			}
			// Neither a panic nor a runtime.Goexit may end the writer.
			return safecall.Isolated(func() error { return write(ctx, t.conn) })
		})
	}
}

// cause is the key of a row of dispensary_inbox_causes.
type cause struct{ reason, kind, clinicID string }

// died counts a dead letter.
func died(t *tx, of cause, receivedAt, at int64) error {
	return t.exec(`INSERT INTO dispensary_inbox_causes VALUES (?1, ?2, ?3, 1, ?4, ?5, ?5) ON CONFLICT DO UPDATE
		SET events = events + 1, oldest = min(oldest, excluded.oldest), first = min(first, excluded.first), last = max(last, excluded.last)`,
		of.reason, of.kind, of.clinicID, receivedAt, at)
}

// causesOf returns the causes of the dead letters in a query.
func causesOf(t *tx, query string, args []any) (causes []cause, err error) {
	err = t.each("SELECT DISTINCT reason, type, clinic_id FROM dispensary_inbox WHERE seq IN (SELECT seq FROM ("+query+"))", args, func(rows *sql.Rows) error {
		var c cause
		err := rows.Scan(&c.reason, &c.kind, &c.clinicID)
		causes = append(causes, c)
		return err
	})
	return causes, err
}

// recount recalculates the rows of causes, because their first and last dead letters may be
// gone.
func recount(t *tx, causes []cause) error {
	for _, c := range causes {
		if err := t.exec("DELETE FROM dispensary_inbox_causes WHERE reason = ? AND type = ? AND clinic_id = ?", c.reason, c.kind, c.clinicID); err != nil {
			return err
		}
		err := t.exec(`INSERT INTO dispensary_inbox_causes
			SELECT reason, type, clinic_id, count(*), min(received_at), min(due_at), max(due_at) FROM dispensary_inbox
			WHERE state = 5 AND reason = ? AND type = ? AND clinic_id = ? GROUP BY 1, 2, 3`, c.reason, c.kind, c.clinicID)
		if err != nil {
			return err
		}
	}
	return nil
}
