package sqlinbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
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
	now := i.now()
	until := now + ttl.Microseconds()
	// A power failure ends the claim and its process together.
	state, err := valueOf(ctx, i.writer.doLazily, func(t *tx) (state []byte, err error) {
		claimed, err := t.first(`INSERT INTO dispensary_inbox_checkpoints (name, holder, held_until) VALUES (?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, held_until = excluded.held_until
			WHERE holder = excluded.holder OR held_until <= ?
			RETURNING state`, []any{name, holder, until, now}, &state)
		if err == nil && !claimed {
			err = reconcile.ErrCheckpointHeld
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
		now := i.now()
		changed, err := t.changed(`UPDATE dispensary_inbox_checkpoints SET state = ?, held_until = ?
			WHERE name = ? AND holder = ? AND held_until > ?`, state, now+ttl.Microseconds(), name, holder, now)
		if err == nil && changed == 0 {
			err = reconcile.ErrCheckpointHeld
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
