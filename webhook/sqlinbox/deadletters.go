package sqlinbox

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// page is how many dead letters are read at a time.
const page = 100

// DeadLetters implements [engine.Engine]. What dies while it lists is not
// listed.
func (i *Inbox) DeadLetters(ctx context.Context) iter.Seq2[engine.DeadLetter, error] {
	return func(yield func(engine.DeadLetter, error) bool) {
		until := i.now()
		for after := (position{due: -1 << 62}); ; {
			deadLetters, last, err := i.deadLetterPage(ctx, after, until)
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

type position struct{ due, seq int64 }

// deadLetterPage reads a page, and nothing is held while the caller looks at it.
func (i *Inbox) deadLetterPage(ctx context.Context, after position, until int64) (deadLetters []engine.DeadLetter, last position, err error) {
	if i.life.Stopped() {
		return nil, last, webhook.ErrInboxClosed
	}
	rows, err := i.db.QueryContext(ctx, `SELECT seq, due_at, attempts, coalesce(reason, ''),
		(SELECT error FROM dispensary_inbox_bodies b WHERE b.seq = dispensary_inbox.seq), `+columns+`
		FROM dispensary_inbox WHERE state = 5 AND (due_at, seq) > (?, ?) AND due_at <= ? ORDER BY due_at, seq LIMIT ?`,
		after.due, after.seq, until, page)
	if err != nil {
		return nil, last, fmt.Errorf("sqlinbox: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		deadLetter, at, err := i.deadLetter(rows)
		if err != nil {
			return nil, last, fmt.Errorf("sqlinbox: %w", err)
		}
		deadLetters, last = append(deadLetters, deadLetter), at
	}
	if err := rows.Err(); err != nil {
		return nil, last, fmt.Errorf("sqlinbox: %w", err)
	}
	return deadLetters, last, nil
}

func (i *Inbox) deadLetter(rows *sql.Rows) (deadLetter engine.DeadLetter, at position, err error) {
	var row storedRow
	var text []byte
	err = rows.Scan(append([]any{&at.seq, &at.due, &deadLetter.Attempts, &deadLetter.Reason, &text}, row.into()...)...)
	if err != nil {
		return deadLetter, at, err
	}
	deadLetter.DiedAt = time.UnixMicro(at.due).UTC()
	deadLetter.Delivery, deadLetter.Err = i.delivery(&row)
	if deadLetter.Err == nil {
		deadLetter.Err = engine.OpenError(i.config.Seal, deadLetter.Key, text)
	}
	return deadLetter, at, nil
}

// Replay implements [engine.Engine].
func (i *Inbox) Replay(ctx context.Context, key webhook.Key) error {
	return i.revise(ctx, key, func(t *tx, text []byte) (bool, error) {
		var seq int64
		var orderingKey string
		found, err := t.first(`UPDATE dispensary_inbox
			SET state = iif(subject IS NULL, 3, 2), due_at = ?, attempts = 0, reason = NULL
			WHERE key = ? AND state = 5 RETURNING seq, coalesce(subject, '')`, []any{i.now(), string(text)}, &seq, &orderingKey)
		if err != nil || !found {
			return false, err
		}
		t.ready = true
		err = t.exec("UPDATE dispensary_inbox_bodies SET error = NULL WHERE seq = ?", seq)
		if err == nil && orderingKey != "" {
			err = promoteHead(t, orderingKey)
		}
		return true, err
	})
}

// Discard implements [engine.Engine].
func (i *Inbox) Discard(ctx context.Context, key webhook.Key) error {
	return i.revise(ctx, key, func(t *tx, text []byte) (bool, error) {
		var seq int64
		found, err := t.first(`UPDATE dispensary_inbox SET state = 6, due_at = ?
			WHERE key = ? AND state = 5 RETURNING seq`, []any{i.now(), string(text)}, &seq)
		if err != nil || !found {
			return false, err
		}
		return true, drop(t, seq)
	})
}

// revise changes a dead letter.
func (i *Inbox) revise(ctx context.Context, key webhook.Key, change func(*tx, []byte) (bool, error)) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	text, err := key.MarshalText()
	if err != nil {
		return err
	}
	return i.writer.do(ctx, func(t *tx) error {
		found, err := change(t, text)
		if err == nil && !found {
			err = webhook.ErrNoDeadLetter
		}
		return err
	})
}
