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

// recordWithRetry stores the outcome of an attempt. A claim that is past its lease is
// still good while no other worker has taken the event.
func (r *run) recordWithRetry(c *claim, a webhook.Attempt) error {
	i := r.inbox
	return i.life.Record(i.worker.Work().Logger, max(engine.LeaseMargin, i.config.Lease), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
		defer cancel()
		return i.recordOutcome(ctx, i.pool, c, a, r.releaseIfEmpty)
	})
}

// releaseIfEmpty gives the partition up together with the outcome, if that was its last
// event, which saves looking for another one. The row is locked first: a job for a newer
// event waits meanwhile, and finds the partition free, or the event seen.
func (r *run) releaseIfEmpty(batch *pgx.Batch) {
	if r.partition.Subject == "" {
		return
	}
	batch.Queue(r.inbox.sql("SELECT FROM {lines} WHERE subject = $1 AND claim = $2 FOR UPDATE"), r.partition.Subject, r.token)
	batch.Queue(r.inbox.sql(`DELETE FROM {lines} WHERE subject = $1 AND claim = $2
		AND NOT EXISTS (SELECT FROM {inbox} WHERE subject = $1 AND state < 3)`), r.partition.Subject, r.token,
	).Exec(func(tag pgconn.CommandTag) error {
		r.finished = tag.RowsAffected() > 0
		return nil
	})
}

// recordQuery stores the outcome of an attempt that was not the end of its event, if that
// still belongs to the claim. It can be repeated where no answer came: what it has written
// already counts.
const recordQuery = `WITH noted AS (
		UPDATE {inbox} SET state = $3::smallint, due_at = clock_timestamp() + $4::interval, attempts = $5,
			reason = nullif($6, ''), error = $7
		WHERE key = $1 AND claim = $2 AND state = 2 RETURNING key
	) SELECT (SELECT count(*) FROM noted)
		+ (SELECT count(*) FROM {inbox} WHERE key = $1 AND claim = $2 AND state = $3::smallint AND state <> 2)`

// settleQuery settles an event, if it still belongs to the claim, and stores how new the
// object is that was handled.
var settleQuery = `WITH ` + settling("e.key = $1 AND e.claim = $2 AND e.state = 2") + `, newest AS (
		INSERT INTO {newest} AS n (object, at, noted_at)
		SELECT object, created_at, now() FROM (SELECT * FROM settled UNION ALL SELECT * FROM kept) s
		WHERE $3 AND object IS NOT NULL AND created_at IS NOT NULL
		ON CONFLICT (object) DO UPDATE SET at = greatest(n.at, excluded.at), noted_at = excluded.noted_at
	) SELECT (SELECT count(*) FROM settled) + (SELECT count(*) FROM kept)
		+ (SELECT count(*) FROM {inbox} WHERE key = $1 AND claim = $2 AND state = 3)`

// sender is a pool or a transaction.
type sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// recordOutcome stores the outcome of an attempt, with whatever also adds, in a
// transaction or as one.
func (i *Inbox) recordOutcome(ctx context.Context, to sender, c *claim, a webhook.Attempt, also func(*pgx.Batch)) error {
	state, attempts, reason, wait := stateWaiting, a.Number, a.Reason(), time.Duration(0)
	var sealedError []byte
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		state = stateDone
	case webhook.ResultDead:
		state, sealedError = stateDead, engine.SealError(i.config.Seal, a.Key, a.Err)
	case webhook.ResultReturned:
		attempts, reason = attempts-1, ""
	default:
		wait = a.RetryIn + time.Microsecond // never before its time
	}
	recorded := 0
	batch := &pgx.Batch{}
	query := batch.Queue(i.sql(recordQuery), c.key, c.token, state, wait, attempts, reason, sealedError)
	if state == stateDone {
		batch = &pgx.Batch{}
		query = batch.Queue(i.sql(settleQuery), c.key, c.token, a.Result == webhook.ResultHandled)
	}
	query.QueryRow(func(row pgx.Row) error { return row.Scan(&recorded) })
	also(batch)
	err := to.SendBatch(ctx, batch).Close()
	if err == nil && recorded == 0 && state == stateDone && c.unsure {
		var settled bool
		settled, err = i.wasSettled(ctx, to, c)
		recorded = map[bool]int{true: 1}[settled]
	}
	switch {
	case err != nil:
		c.unsure = true // whether it is stored
		return fmt.Errorf("riverinbox: %w", err)
	case recorded == 0:
		return engine.ErrClaimLost
	}
	return nil
}

// lock keeps other workers from an event until the transaction ends. Unlike the
// record of its outcome it does not block an accept of the same event, or a worker
// that has handled another one of the same object.
func (i *Inbox) lock(ctx context.Context, tx pgx.Tx, c *claim) error {
	tag, err := tx.Exec(ctx, i.sql("SELECT FROM {inbox} WHERE key = $1 AND claim = $2 AND state = 2 FOR UPDATE"), c.key, c.token)
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
			return i.recordOutcome(bound, tx, c, a, func(*pgx.Batch) {})
		})
	}
}
