package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Missing implements [reconcile.Inbox].
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	texts := make([]string, len(keys))
	for n, key := range keys {
		texts[n] = key.String()
	}
	rows, err := i.pool.Query(ctx, i.sql("SELECT key FROM unnest($1::text[]) AS asked (key) WHERE "+
		"(SELECT count(*) FROM {inbox} e WHERE e.key = asked.key) > 0 OR (SELECT count(*) FROM {ledger} l WHERE l.digest = "+digestOf("asked.key")+") > 0"), texts)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	known, err := setOf(rows)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	return engine.Missing(keys, func(key webhook.Key) bool { return known[key.String()] }), nil
}

// ClaimCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) (state []byte, err error) {
	err = i.checkpoint(ctx, &state, `INSERT INTO {checkpoints} AS c (name, holder, until)
		VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE c.holder = excluded.holder OR c.until <= clock_timestamp() RETURNING state`, name, holder, ttl)
	return state, err
}

// SaveCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	return i.checkpoint(ctx, new([]byte), `UPDATE {checkpoints} SET state = $4, until = clock_timestamp() + $3::interval
		WHERE name = $1 AND holder = $2 AND until > clock_timestamp() RETURNING state`, name, holder, ttl, state)
}

// ReadCheckpoint implements [reconcile.CheckpointReader].
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) (state []byte, err error) {
	err = i.pool.QueryRow(ctx, i.sql("SELECT state FROM {checkpoints} WHERE name = $1"), name).Scan(&state)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return state, err
}

// checkpoint changes a checkpoint, if the holder may.
func (i *Inbox) checkpoint(ctx context.Context, state *[]byte, statement string, args ...any) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	err := i.pool.QueryRow(ctx, i.sql(statement), args...).Scan(state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return reconcile.ErrCheckpointHeld
	case err != nil:
		return fmt.Errorf("riverinbox: %w", err)
	}
	return nil
}

// ReleaseCheckpoint implements [reconcile.Checkpoints]. It works on a closed inbox
// too.
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	_, err := i.pool.Exec(ctx, i.sql("UPDATE {checkpoints} SET holder = '', until = '-infinity' WHERE name = $1 AND holder = $2"), name, holder)
	if err != nil {
		return fmt.Errorf("riverinbox: %w", err)
	}
	return nil
}
