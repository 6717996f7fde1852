package riverinbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// Reseal implements [engine.Resealer]. One replica is enough.
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	aead, rotates := i.config.Seal.(engine.RotatingAEAD)
	if !rotates {
		return 0, engine.ErrNoRotator
	}
	total, after := 0, ""
	var lost error
	for {
		rows, err := i.sealedAfter(ctx, after)
		if err != nil || len(rows) == 0 {
			return total, errors.Join(lost, err)
		}
		after = rows[len(rows)-1].key
		for _, row := range rows {
			resealed, err := i.resealRow(ctx, &row, aead, &lost)
			if err != nil {
				return total, errors.Join(lost, err)
			}
			total += resealed
		}
	}
}

// sealedRow is what is sealed of an event; failure is nil unless an attempt
// failed for good.
type sealedRow struct {
	key           string
	body, failure []byte
}

func (i *Inbox) sealedAfter(ctx context.Context, after string) ([]sealedRow, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	rows, err := i.pool.Query(ctx, i.sql("SELECT key, body, error FROM {inbox} WHERE key > $1 AND body IS NOT NULL ORDER BY key LIMIT $2"), after, page)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sealedRow, err error) {
		return r, row.Scan(&r.key, &r.body, &r.failure)
	})
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	return all, nil
}

// resealRow writes one row alone: who holds several would be in the way of handlers
// that hold one of them until their own transaction ends. What was handled or
// discarded meanwhile has no body any more and is left alone.
func (i *Inbox) resealRow(ctx context.Context, row *sealedRow, aead engine.RotatingAEAD, lost *error) (changed int, err error) {
	var key webhook.Key
	var body, failure []byte
	if err = key.UnmarshalText([]byte(row.key)); err == nil {
		body, failure, err = engine.Reseal(aead, key, row.body, row.failure)
	}
	switch {
	case err != nil:
		*lost = cmp.Or(*lost, err)
		return 0, nil
	case body == nil:
		return 0, nil
	}
	// An error that is another one by now was sealed since, with the key of today;
	// its body was not.
	tag, err := i.pool.Exec(ctx, i.sql(`UPDATE {inbox} SET body = $3,
		error = CASE WHEN error IS NOT DISTINCT FROM $4 THEN $5 ELSE error END WHERE key = $1 AND body = $2`),
		row.key, row.body, body, row.failure, failure)
	if err != nil {
		return 0, fmt.Errorf("riverinbox: %w", err)
	}
	return int(tag.RowsAffected()), nil
}
