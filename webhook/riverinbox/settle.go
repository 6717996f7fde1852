package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// settle notes the outcome of an attempt. It tries until that succeeds or the
// inbox is closed: a handler's work that is done should not be done again because
// the database was away for a moment. A claim that is past its lease is still
// good while nobody else has taken the event.
func (r *run) settle(c *claim, a webhook.Attempt) error {
	i := r.inbox
	end := time.Now().Add(max(leaseMargin, i.config.Lease))
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), transactionTimeout)
		err := i.note(ctx, i.pool, c, a, r.leave)
		cancel()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errClaimLost), time.Now().After(end):
			return err
		}
		i.worker.Work().Logger.LogAttrs(i.ctx, slog.LevelWarn, "webhook inbox cannot note an outcome, and tries again", slog.String("reason", err.Error()))
		select {
		case <-time.After(pause):
		case <-i.ctx.Done():
			end = time.Time{} // once more, and no further
		}
	}
}

// leave has the line given back together with the outcome, if that was its last
// event, which saves looking for another one. The row is locked first: who comes
// for a newer event meanwhile waits, and finds the line free, or the event seen.
func (r *run) leave(batch *pgx.Batch) {
	if r.line.Subject == "" {
		return
	}
	batch.Queue(r.inbox.sql("SELECT FROM {lines} WHERE subject = $1 AND claim = $2 FOR UPDATE"), r.line.Subject, r.token)
	batch.Queue(r.inbox.sql(`DELETE FROM {lines} WHERE subject = $1 AND claim = $2
		AND NOT EXISTS (SELECT FROM {inbox} WHERE subject = $1 AND state < 3)`), r.line.Subject, r.token,
	).Exec(func(tag pgconn.CommandTag) error {
		r.finished = tag.RowsAffected() > 0
		return nil
	})
}

// noteQuery writes an outcome down, if the event is still in the hands it was
// claimed by, and how new the object is that was handled. It can be repeated where
// no answer came: what it has written already counts.
const noteQuery = `WITH noted AS (
		UPDATE {inbox} SET state = $3::smallint, due_at = clock_timestamp() + $4::interval, attempts = $5,
			reason = nullif($6, ''), error = $7, body = CASE WHEN $3::smallint = 3 THEN NULL ELSE body END
		WHERE key = $1 AND claim = $2 AND state = 2 RETURNING object, created_at
	), newest AS (
		INSERT INTO {newest} AS n (object, at, noted_at)
		SELECT object, created_at, now() FROM noted WHERE $8 AND object IS NOT NULL AND created_at IS NOT NULL
		ON CONFLICT (object) DO UPDATE SET at = greatest(n.at, excluded.at), noted_at = excluded.noted_at
	) SELECT (SELECT count(*) FROM noted)
		+ (SELECT count(*) FROM {inbox} WHERE key = $1 AND claim = $2 AND state = $3::smallint AND state <> 2)`

// sender is a pool or a transaction.
type sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// note writes the outcome of an attempt, with whatever also adds, in a
// transaction or as one.
func (i *Inbox) note(ctx context.Context, to sender, c *claim, a webhook.Attempt, also func(*pgx.Batch)) error {
	state, attempts, reason, wait := stateWaiting, a.Number, a.Reason(), time.Duration(0)
	var letter []byte
	switch a.Result {
	case webhook.ResultHandled, webhook.ResultSkipped:
		state = stateDone
	case webhook.ResultDead:
		var err error
		if letter, err = engine.SealError(i.config.Seal, a.Key, a.Err); err != nil {
			letter = nil // the reason will have to do
		}
		state = stateDead
	case webhook.ResultReturned:
		attempts, reason = attempts-1, ""
	default:
		wait = a.RetryIn + time.Microsecond // never before its time
	}
	noted := 0
	batch := &pgx.Batch{}
	batch.Queue(i.sql(noteQuery), c.key, c.token, state, wait, attempts, reason, letter, a.Result == webhook.ResultHandled).
		QueryRow(func(row pgx.Row) error { return row.Scan(&noted) })
	also(batch)
	err := to.SendBatch(ctx, batch).Close()
	switch {
	case err != nil:
		return fmt.Errorf("riverinbox: %w", err)
	case noted == 0:
		return errClaimLost
	}
	return nil
}

// lock keeps an event in the hands that it was claimed by until the transaction
// ends. Unlike a note of the outcome it keeps nobody waiting meanwhile who comes
// with the same event, or has handled another one of the same object.
func (i *Inbox) lock(ctx context.Context, tx pgx.Tx, c *claim) error {
	tag, err := tx.Exec(ctx, i.sql("SELECT FROM {inbox} WHERE key = $1 AND claim = $2 AND state = 2 FOR UPDATE"), c.key, c.token)
	switch {
	case err != nil:
		return fmt.Errorf("riverinbox: %w", err)
	case tag.RowsAffected() == 0:
		return errClaimLost
	}
	return nil
}

// InTransaction writes rows of the program's own and notes the event as handled,
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
	p, _ := ctx.Value(pendingKey{}).(*pending)
	switch {
	case p == nil:
		return errors.New("riverinbox: InTransaction: the context is not that of a handler of this inbox")
	case p.noted:
		return errors.New("riverinbox: InTransaction: called twice")
	}
	task := p.claim.task
	a := webhook.Attempt{Delivery: task.Delivery, Number: task.Attempt, Result: webhook.ResultHandled, Object: task.Object}
	// Not the handler's context: its end must not leave open what became of it.
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.inbox.runTimeout())
	defer cancel()
	err := pgx.BeginFunc(bound, p.inbox.pool, func(tx pgx.Tx) error {
		if err := p.inbox.lock(bound, tx, p.claim); err != nil {
			return err
		}
		if err := write(ctx, tx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return p.inbox.note(bound, tx, p.claim, a, func(*pgx.Batch) {})
	})
	p.noted = err == nil
	return err
}

type pendingKey struct{}

// pending is an attempt that InTransaction may note before it has ended.
type pending struct {
	inbox *Inbox
	claim *claim
	noted bool
}
