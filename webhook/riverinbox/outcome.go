package riverinbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// recordWithRetry stores the outcome of an attempt. A claim that is past its time is
// still good while no other worker has ended it.
func (r *run) recordWithRetry(c *claim, a webhook.Attempt) error {
	i := r.inbox
	return i.life.Record(i.worker.Work().Logger, max(engine.LeaseMargin, i.config.Lease), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
		defer cancel()
		finished := r.finished
		// Those of one object store in turns how new it is.
		err := i.recordOutcome(c, a, func(queue func(*pgx.Batch)) error {
			return i.recording.do(ctx, request{order: string(c.task.Object) + "\x00" + c.subject, queue: func(batch *pgx.Batch) {
				queue(batch)
				r.lookForMore(batch, &finished)
			}})
		})
		if err == nil {
			r.finished = finished
		}
		return err
	})
}

// lookForMore finds out, together with the outcome, whether that was the last event of the
// partition, which saves trying to claim another one. Who comes for a newer event waits
// until the claim has ended, or has come before, and the event is seen: see isTaken.
func (r *run) lookForMore(batch *pgx.Batch, finished *bool) {
	if r.partition.Subject == "" {
		return
	}
	batch.Queue(r.inbox.sql("SELECT FROM {inbox} WHERE subject = $1 AND state < 3 LIMIT 1"), r.partition.Subject).
		Exec(func(tag pgconn.CommandTag) error {
			*finished = tag.RowsAffected() == 0
			return nil
		})
}

// ending makes a statement that ends a claim, and with it changes its event, unless the
// claim is another's. The parts have to put the changed event into ended.
func ending(parts string) string {
	return `WITH mine AS MATERIALIZED (SELECT event FROM {claims} WHERE subject = $1 AND claim = $2 FOR UPDATE
		), ` + parts + ` DELETE FROM {claims} c USING ended WHERE c.subject = $1 AND c.claim = $2`
}

var (
	// returnQuery makes an attempt one that was not begun.
	returnQuery = ending(`ended AS (SELECT event FROM mine)`)

	// recordQuery stores the outcome of an attempt that was not the end of its event.
	recordQuery = ending(`ended AS (
		UPDATE {inbox} e SET state = $3::smallint, due_at = clock_timestamp() + $4::interval, attempts = $5,
			reason = nullif($6, ''), error = $7
		FROM mine WHERE e.key = mine.event RETURNING e.key)`)

	// settleQuery settles an event, and stores how new the object is that was handled.
	settleQuery = ending(settling("e.key = (SELECT event FROM mine)") + `, ended AS (
		SELECT * FROM settled UNION ALL SELECT * FROM kept
	), newest AS (
		INSERT INTO {newest} AS n (object, at, noted_at)
		SELECT object, created_at, now() FROM ended WHERE $3 AND object IS NOT NULL AND created_at IS NOT NULL
		ON CONFLICT (object) DO UPDATE SET at = greatest(n.at, excluded.at), noted_at = excluded.noted_at)`)
)

// sender is a pool or a transaction.
type sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// sendTo executes statements in a transaction, or as one.
func sendTo(ctx context.Context, to sender) func(queue func(*pgx.Batch)) error {
	return func(queue func(*pgx.Batch)) error {
		batch := &pgx.Batch{}
		queue(batch)
		return to.SendBatch(ctx, batch).Close()
	}
}

// recordOutcome has send store the outcome of an attempt.
//
// Where it has failed it may be stored all the same, without an answer. Then the claim has
// ended, as it has when another worker took it for abandoned, which cannot be before its
// time is over.
func (i *Inbox) recordOutcome(c *claim, a webhook.Attempt, send func(queue func(*pgx.Batch)) error) error {
	var ended bool
	query, args := i.outcome(a)
	err := send(func(batch *pgx.Batch) {
		batch.Queue(i.sql(query), append([]any{c.subject, c.token}, args...)...).Exec(func(tag pgconn.CommandTag) error {
			ended = tag.RowsAffected() > 0
			return nil
		})
	})
	switch {
	case err != nil:
		c.unsure = true // whether it is stored
		return fmt.Errorf("riverinbox: %w", err)
	case !ended && !(c.unsure && i.leases.certain(c.token)):
		return engine.ErrClaimLost
	}
	return nil
}

// outcome returns the statement that stores the outcome of an attempt, and what it takes
// beside the claim.
func (i *Inbox) outcome(a webhook.Attempt) (query string, args []any) {
	switch a.Result {
	case webhook.ResultReturned:
		return returnQuery, nil
	case webhook.ResultHandled, webhook.ResultSkipped:
		return settleQuery, []any{a.Result == webhook.ResultHandled}
	case webhook.ResultDead:
		return recordQuery, []any{stateDead, time.Duration(0), a.Number, a.Reason(), engine.SealError(i.config.Seal, a.Key, a.Err)}
	}
	wait := a.RetryIn + time.Microsecond // never before its time
	return recordQuery, []any{stateWaiting, wait, a.Number, a.Reason(), []byte(nil)}
}

// lock keeps other workers from ending a claim until the transaction ends. Unlike the
// record of the outcome it keeps neither the claim from being extended, nor an accept of the
// same event, nor a worker that has handled another one of the same object.
func (i *Inbox) lock(ctx context.Context, tx pgx.Tx, c *claim) error {
	tag, err := tx.Exec(ctx, i.sql("SELECT FROM {claims} WHERE subject = $1 AND claim = $2 FOR KEY SHARE"), c.subject, c.token)
	switch {
	case err != nil:
		return fmt.Errorf("riverinbox: %w", err)
	case tag.RowsAffected() == 0:
		return engine.ErrClaimLost
	}
	return nil
}

// InTransaction writes rows of the program's own and stores the event as handled,
// in one transaction: whatever happens, the rows are there exactly if the event
// counts as handled, so that they are written exactly once. ctx is that of the
// handler.
//
// Call it as the last thing a handler does and return its error. If write fails,
// or panics, nothing is written and the attempt has failed. An error of the
// handler after it comes too late: the event has been handled.
//
// The transaction may insert jobs too, with [river.ClientFromContext]. It fails
// for a context that is not a handler's, and if it is called a second time.
func InTransaction(ctx context.Context, write func(context.Context, pgx.Tx) error) error {
	return engine.InTransaction(ctx, write)
}

// runTimeout is how long a job may take: it begins no event after the time that
// one handler may take, and needs a moment to stop.
func (i *Inbox) runTimeout() time.Duration {
	return 2*i.worker.Work().HandlerTimeout + engine.LeaseMargin
}

// inTransaction stores the outcome of the event of a claim, together with what the
// program writes.
func (i *Inbox) inTransaction(c *claim) func(context.Context, webhook.Attempt, func(context.Context, pgx.Tx) error) error {
	return func(ctx context.Context, a webhook.Attempt, write func(context.Context, pgx.Tx) error) error {
		// Not the handler's context: its end must not leave open what became of it.
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.runTimeout())
		defer cancel()
		return pgx.BeginFunc(bound, i.pool, func(tx pgx.Tx) error {
			if err := i.lock(bound, tx, c); err != nil {
				return err
			}
			if err := write(ctx, tx); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return i.recordOutcome(c, a, sendTo(bound, tx))
		})
	}
}
