package sqlinbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Reseal implements [engine.Resealer].
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	aead, rotates := i.config.Seal.(engine.RotatingAEAD)
	if !rotates {
		return 0, engine.ErrNoRotator
	}
	total, after := 0, int64(0)
	var lost error
	for {
		rows, err := i.sealedAfter(ctx, after)
		if err != nil || len(rows) == 0 {
			return total, errors.Join(lost, err)
		}
		after = rows[len(rows)-1].seq
		resealed, err := i.resealRows(ctx, rows, aead, &lost)
		total += resealed
		if err != nil {
			return total, errors.Join(lost, err)
		}
	}
}

// sealedRow is what is sealed of an event; failure is nil unless an attempt
// failed for good.
type sealedRow struct {
	seq                     int64
	key                     string
	body, failure           []byte
	freshBody, freshFailure []byte
}

func (i *Inbox) sealedAfter(ctx context.Context, after int64) (all []sealedRow, err error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	rows, err := i.db.QueryContext(ctx, `SELECT seq, key, body, error
		FROM dispensary_inbox_bodies JOIN dispensary_inbox USING (seq)
		WHERE seq > ? ORDER BY seq LIMIT ?`, after, page)
	if err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row sealedRow
		if err := rows.Scan(&row.seq, &row.key, &row.body, &row.failure); err != nil {
			return nil, fmt.Errorf("sqlinbox: %w", err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	return all, nil
}

// resealRows writes those of rows that need it in one transaction. What was
// handled or discarded meanwhile has no body any more and is left alone.
func (i *Inbox) resealRows(ctx context.Context, rows []sealedRow, aead engine.RotatingAEAD, lost *error) (int, error) {
	var stale []sealedRow
	for _, row := range rows {
		var key webhook.Key
		err := key.UnmarshalText([]byte(row.key))
		if err == nil {
			row.freshBody, row.freshFailure, err = engine.Reseal(aead, key, row.body, row.failure)
		}
		switch {
		case err != nil:
			*lost = cmp.Or(*lost, err)
		case row.freshBody != nil:
			stale = append(stale, row)
		}
	}
	if len(stale) == 0 {
		return 0, nil
	}
	return valueOf(ctx, i.writer.do, func(t *tx) (changed int, err error) {
		for _, row := range stale {
			// An error that is another one by now was sealed since, with the key
			// of today; its body was not.
			n, err := t.changed(`UPDATE dispensary_inbox_bodies SET body = ?, error = CASE WHEN error IS ? THEN ? ELSE error END
				WHERE seq = ? AND body = ?`, row.freshBody, row.failure, row.freshFailure, row.seq, row.body)
			if err != nil {
				return 0, err
			}
			changed += int(n)
		}
		return changed, nil
	})
}
