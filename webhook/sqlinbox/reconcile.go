package sqlinbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

var _ reconcile.Inbox = (*Inbox)(nil)

// Missing implements [reconcile.Inbox]. The inbox keeps a key for 31 days.
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if err := i.readable(); err != nil {
		return nil, err
	}
	list, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	_, err = collect(ctx, i.db, func(rows *sql.Rows) (key string, err error) {
		err = rows.Scan(&key)
		known[key] = true
		return key, err
	}, "SELECT key FROM dispensary_inbox WHERE key IN (SELECT value FROM json_each(?))", string(list))
	if err != nil {
		return nil, err
	}
	return inboxkit.Missing(keys, func(key webhook.Key) bool { return known[key.String()] }), nil
}

// ClaimCheckpoint implements [reconcile.Inbox].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	now := i.config.micros()
	until := now + ttl.Microseconds()
	// A power failure ends the claim and its process together.
	state, err := valueOf(ctx, i.writer.doLazily, func(t *tx) (state []byte, err error) {
		claimed, err := t.first(`INSERT INTO dispensary_inbox_checkpoints (name, holder, held_until) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
			WHERE holder = excluded.holder OR held_until <= ?
			RETURNING state`, []any{name, holder, until, now}, &state)
		if err == nil && !claimed {
			err = engine.ErrCheckpointHeld
		}
		return state, err
	})
	if err != nil && ctx.Err() != nil {
		// The writer may have made the claim, or may still make it.
		i.writer.PostUrgent(&write{lazy: true, do: func(t *tx) error {
			return t.exec("UPDATE dispensary_inbox_checkpoints SET held_until = 0 WHERE name = ? AND holder = ? AND held_until = ?", name, holder, until)
		}})
	}
	return state, err
}

// SaveCheckpoint implements [reconcile.Inbox].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	return i.writer.do(ctx, func(t *tx) error {
		now := i.config.micros()
		changed, err := t.changed(`UPDATE dispensary_inbox_checkpoints SET state = ?, held_until = ?
			WHERE name = ? AND holder = ? AND held_until > ?`, state, now+ttl.Microseconds(), name, holder, now)
		if err == nil && changed == 0 {
			err = engine.ErrCheckpointHeld
		}
		return err
	})
}

// ReleaseCheckpoint implements [reconcile.Inbox].
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	return i.writer.doLazily(ctx, func(t *tx) error {
		return t.exec("UPDATE dispensary_inbox_checkpoints SET held_until = 0 WHERE name = ? AND holder = ?", name, holder)
	})
}

// ReadCheckpoint returns the last saved state, or nil. It claims nothing.
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	states, err := collect(ctx, i.db, func(rows *sql.Rows) (state []byte, err error) {
		return state, rows.Scan(&state)
	}, "SELECT state FROM dispensary_inbox_checkpoints WHERE name = ?", name)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	return states[0], nil
}

// retain deletes old keys every hour.
func (i *Inbox) retain() {
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		err := i.purge()
		if errors.Is(err, api.ErrReplaced) {
			return
		}
		if err != nil && !i.life.Stopped() {
			i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, "webhook inbox cannot purge", slog.String("reason", err.Error()))
		}
		select {
		case <-ticker.C:
		case <-i.life.Stopping():
			return
		}
	}
}

// purge deletes in small transactions, so that accepts do not wait long. It measures the age of a
// key from the newest events if the clock is later: a clock that was ahead for a minute would
// otherwise delete all keys, and events sent again would be handled again.
func (i *Inbox) purge() error {
	const few = 500
	before, err := valueOf(context.Background(), i.writer.doLazily, func(t *tx) (newest int64, err error) {
		_, err = t.first(`SELECT coalesce(max(order_at), 0) FROM (SELECT order_at FROM dispensary_inbox ORDER BY seq DESC LIMIT 100)`, nil, &newest)
		return min(newest, i.config.micros()) - inboxkit.Retention.Microseconds(), err
	})
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM dispensary_inbox WHERE seq IN
			(SELECT seq FROM dispensary_inbox WHERE state = 6 AND due_at < ? LIMIT ?)`,
		`DELETE FROM dispensary_inbox_newest WHERE object IN
			(SELECT object FROM dispensary_inbox_newest WHERE noted_at < ? LIMIT ?)`,
	} {
		for deleted := int64(few); deleted == few; {
			if i.life.Stopped() {
				return nil
			}
			err := i.writer.doLazily(context.Background(), func(t *tx) (err error) {
				deleted, err = t.changed(statement, before, few)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
