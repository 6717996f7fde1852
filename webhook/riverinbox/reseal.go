package riverinbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
)

// page is how many bodies are read at a time.
const page = 100

// Reseal encrypts, with the current key of [Config].Seal, every stored body and error that an
// older key has encrypted, and returns the number of these events. To retire a key, put the new
// key in front of the ring in all processes, call Reseal, and remove the old key once
// Reseal returns nil. The inbox accepts and handles events meanwhile.
//
// A body that cannot be decrypted stays, and the others are encrypted.
//
// Errors: [webhook.ErrBodyLost] for the first body that cannot be decrypted;
// [engine.ErrNoRotator] if Seal is no [seal.Rotator]. One replica is enough.
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	after := ""
	next := func() ([]engine.Sealed, error) {
		if i.life.Stopped() {
			return nil, webhook.ErrInboxClosed
		}
		rows, err := i.pool.Query(ctx, i.sql("SELECT key, "+storedBody+", error FROM {inbox} e WHERE key > $1 AND state <> 3 ORDER BY key LIMIT $2"), after, page)
		if err != nil {
			return nil, fmt.Errorf("riverinbox: %w", err)
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s engine.Sealed, err error) {
			err = row.Scan(&s.Key, &s.Body, &s.Failure)
			after = s.Key
			return s, err
		})
		if err != nil {
			return nil, fmt.Errorf("riverinbox: %w", err)
		}
		return all, nil
	}
	return engine.ResealPages(i.config.Seal, next, func(stale []engine.Sealed) (int, error) { return i.storeResealed(ctx, stale) })
}

// storeResealed writes each row alone: who holds several would be in the way of handlers
// that hold one of them until their own transaction ends. What was handled or discarded
// meanwhile has no body any more and is left alone.
func (i *Inbox) storeResealed(ctx context.Context, stale []engine.Sealed) (changed int, err error) {
	for _, s := range stale {
		batch := &pgx.Batch{}
		// What comes after it sees where the body is, which cannot be moved meanwhile.
		batch.Queue(i.sql("SELECT FROM {inbox} WHERE key = $1 FOR UPDATE"), s.Key)
		batch.Queue(i.sql(`UPDATE {bodies} b SET body = $3 FROM {inbox} e
			WHERE e.key = $1 AND e.body IS NULL AND b.day = e.body_day AND b.seq = e.seq AND b.body = $2`), s.Key, s.Body, s.FreshBody)
		batch.Queue(i.sql(`UPDATE {inbox} e SET body = CASE WHEN e.body = $2 THEN $3 ELSE e.body END,
			error = CASE WHEN error IS NOT DISTINCT FROM $4 THEN $5 ELSE error END
			WHERE key = $1 AND state <> 3 AND `+storedBody+` IN ($2, $3)`), s.Key, s.Body, s.FreshBody, s.Failure, s.FreshFailure,
		).Exec(func(tag pgconn.CommandTag) error {
			changed += int(tag.RowsAffected())
			return nil
		})
		if err := i.pool.SendBatch(ctx, batch).Close(); err != nil {
			return changed, fmt.Errorf("riverinbox: %w", err)
		}
	}
	return changed, nil
}
