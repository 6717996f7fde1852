package sqlinbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
)

// Reseal seals anew what the inbox holds under a key that another one has
// replaced since, and returns how many events that were. Bodies are sealed once
// and may wait long, as dead letters for ever, so that this is how an old key is
// retired: put the new key in front of the ring everywhere, call Reseal, and
// take the old one away when it returns without an error.
//
// Events go on being accepted and handled meanwhile. A body that does not open
// stays as it is and the others are sealed; the error tells of the first, and
// matches [webhook.ErrBodyLost]. Reseal needs an AEAD that is a [seal.Rotator].
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	rotator, knows := i.config.Seal.(seal.Rotator)
	if !knows {
		return 0, errors.New("sqlinbox: Reseal: Config.Seal is no seal.Rotator and cannot tell which key is old")
	}
	total, after := 0, int64(0)
	var lost error
	for {
		rows, err := i.sealedAfter(ctx, after)
		if err != nil || len(rows) == 0 {
			return total, errors.Join(lost, err)
		}
		after = rows[len(rows)-1].seq
		resealed, err := i.resealRows(ctx, rows, rotator, &lost)
		total += resealed
		if err != nil {
			return total, errors.Join(lost, err)
		}
	}
}

// sealedRow is what is sealed of an event; failure is nil unless an attempt
// failed for good.
type sealedRow struct {
	seq           int64
	key           string
	body, failure []byte
}

func (i *Inbox) sealedAfter(ctx context.Context, after int64) (all []sealedRow, err error) {
	if i.stopped() {
		return nil, webhook.ErrInboxClosed
	}
	rows, err := i.db.QueryContext(ctx, `SELECT seq, key, body, error FROM dispensary_inbox
		WHERE seq > ? AND body IS NOT NULL ORDER BY seq LIMIT ?`, after, page)
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
func (i *Inbox) resealRows(ctx context.Context, rows []sealedRow, rotator seal.Rotator, lost *error) (changed int, err error) {
	fresh := make(map[int64]sealedRow, len(rows))
	for _, row := range rows {
		// Those of today's key are opened too: whoever retires a key wants to
		// hear of a body that nothing opens.
		again, err := i.resealRow(row)
		switch {
		case err != nil && *lost == nil:
			*lost = err
		case err == nil && (rotator.Stale(row.body) || row.failure != nil && rotator.Stale(row.failure)):
			fresh[row.seq] = again
		}
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	err = i.writer.do(ctx, func(t *tx) error {
		changed = 0
		for _, row := range rows {
			again, ok := fresh[row.seq]
			if !ok {
				continue
			}
			n, err := t.changed("UPDATE dispensary_inbox SET body = ?, error = ? WHERE seq = ? AND body = ? AND error IS ?",
				again.body, again.failure, row.seq, row.body, row.failure)
			if err != nil {
				return err
			}
			changed += int(n)
		}
		return nil
	})
	return changed, err
}

func (i *Inbox) resealRow(row sealedRow) (sealedRow, error) {
	var key webhook.Key
	err := key.UnmarshalText([]byte(row.key))
	if err == nil {
		row.body, row.failure, err = webhook.Reseal(i.config.Seal, key, row.body, row.failure)
	}
	return row, err
}
