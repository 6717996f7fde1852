package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// page is how many dead letters are read at a time.
const page = 100

// DeadLetters implements [engine.Engine]. What dies while it lists is not
// listed.
func (i *Inbox) DeadLetters(ctx context.Context) iter.Seq2[engine.DeadLetter, error] {
	return func(yield func(engine.DeadLetter, error) bool) {
		var until time.Time
		for after := (position{}); ; {
			deadLetters, last, err := i.deadLetterPage(ctx, after, &until)
			for _, deadLetter := range deadLetters {
				if !yield(deadLetter, nil) {
					return
				}
			}
			if err != nil {
				yield(engine.DeadLetter{}, err)
				return
			}
			if len(deadLetters) < page {
				return
			}
			after = last
		}
	}
}

type position struct {
	due time.Time
	seq int64
}

// deadLetterPage reads a page, and nothing is held while the caller looks at it. The
// first one sets until.
func (i *Inbox) deadLetterPage(ctx context.Context, after position, until *time.Time) (deadLetters []engine.DeadLetter, last position, err error) {
	if i.life.Stopped() {
		return nil, last, webhook.ErrInboxClosed
	}
	if until.IsZero() {
		if err := i.pool.QueryRow(ctx, "SELECT now()").Scan(until); err != nil {
			return nil, last, fmt.Errorf("riverinbox: %w", err)
		}
	}
	rows, err := i.pool.Query(ctx, i.sql(`SELECT `+columns+`, e.seq, e.due_at, e.attempts, coalesce(e.reason, ''), e.error
		FROM {inbox} e WHERE state = 4 AND (due_at, seq) > ($1, $2) AND due_at <= $4 ORDER BY due_at, seq LIMIT $3`),
		after.due, after.seq, page, *until)
	if err != nil {
		return nil, last, fmt.Errorf("riverinbox: %w", err)
	}
	deadLetters, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (deadLetter engine.DeadLetter, err error) {
		deadLetter, last, err = i.deadLetter(row)
		return deadLetter, err
	})
	if err != nil {
		return nil, last, fmt.Errorf("riverinbox: %w", err)
	}
	return deadLetters, last, nil
}

func (i *Inbox) deadLetter(row pgx.Row) (deadLetter engine.DeadLetter, at position, err error) {
	var stored storedRow
	var sealed []byte
	err = row.Scan(append(stored.into(), &at.seq, &at.due, &deadLetter.Attempts, &deadLetter.Reason, &sealed)...)
	if err != nil {
		return deadLetter, at, err
	}
	deadLetter.DiedAt = at.due.UTC()
	deadLetter.Delivery, deadLetter.Err = i.delivery(&stored)
	if deadLetter.Err == nil {
		deadLetter.Err = engine.OpenError(i.config.Seal, deadLetter.Key, sealed)
	}
	return deadLetter, at, nil
}

// Replay implements [engine.Engine]. The event gets a new job.
func (i *Inbox) Replay(ctx context.Context, key webhook.Key) error {
	const statement = `UPDATE {inbox} SET state = 1, due_at = now(), attempts = 0, claim = NULL, reason = NULL, error = NULL
		WHERE key = $1 AND state = 4 RETURNING coalesce(subject, '')`
	return i.revise(ctx, key, statement, func(tx pgx.Tx, row *newRow) error {
		return i.insertJobs(ctx, tx, []partition{row.partition()})
	})
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, key webhook.Key) error {
	const statement = `UPDATE {inbox} SET state = 3, due_at = now(), body = NULL, error = NULL
		WHERE key = $1 AND state = 4 RETURNING coalesce(subject, '')`
	return i.revise(ctx, key, statement, func(pgx.Tx, *newRow) error { return nil })
}

// revise changes a dead letter.
func (i *Inbox) revise(ctx context.Context, key webhook.Key, statement string, then func(pgx.Tx, *newRow) error) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	row := &newRow{key: key.String()}
	return pgx.BeginFunc(ctx, i.pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, i.sql(statement), row.key).Scan(&row.subject)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return webhook.ErrNoDeadLetter
		case err != nil:
			return fmt.Errorf("riverinbox: %w", err)
		}
		return then(tx, row)
	})
}
