package sqlinbox

import (
	"context"
	"database/sql"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// page is the number of bodies that are read at a time.
const page = 100

// Reseal encrypts, with the current key of [Config].Seal, every stored body and error that an
// older key has encrypted, and returns the number of these events. To retire a key, put the new
// key in front of the ring in all processes, call Reseal, and remove the old key once
// Reseal returns nil. The inbox accepts and handles events meanwhile.
//
// A body that cannot be decrypted stays, and the others are encrypted.
//
// Errors: [webhook.ErrBodyLost] for the first body that cannot be decrypted;
// [engine.ErrNoRotator] if Seal is no [seal.Rotator].
func (i *Inbox) Reseal(ctx context.Context) (int, error) {
	after := int64(0)
	next := func() ([]engine.Sealed, error) {
		if err := i.readable(); err != nil {
			return nil, err
		}
		return collect(ctx, i.db, func(rows *sql.Rows) (s engine.Sealed, err error) {
			return s, rows.Scan(&after, &s.Key, &s.Body, &s.Failure)
		}, `SELECT seq, key, body, error FROM dispensary_inbox_bodies JOIN dispensary_inbox USING (seq)
			WHERE seq > ? ORDER BY seq LIMIT ?`, after, page)
	}
	return engine.ResealPages(i.config.Seal, next, func(stale []engine.Sealed) (int, error) { return i.storeResealed(ctx, stale) })
}

// storeResealed writes a page in one transaction. It skips events that were handled or
// discarded meanwhile.
func (i *Inbox) storeResealed(ctx context.Context, stale []engine.Sealed) (int, error) {
	if len(stale) == 0 {
		return 0, nil
	}
	return valueOf(ctx, i.writer.do, func(t *tx) (changed int, err error) {
		for _, s := range stale {
			n, err := t.changed(`UPDATE dispensary_inbox_bodies SET body = ?, error = CASE WHEN error IS ? THEN ? ELSE error END
				WHERE seq = (SELECT seq FROM dispensary_inbox WHERE key = ?) AND body = ?`, s.FreshBody, s.Failure, s.FreshFailure, s.Key, s.Body)
			if err != nil {
				return 0, err
			}
			changed += int(n)
		}
		return changed, nil
	})
}
