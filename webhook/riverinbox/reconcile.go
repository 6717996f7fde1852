package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Missing implements [reconcile.Inbox].
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	digests := make([]pgtype.UUID, len(keys))
	for n, key := range keys {
		digests[n] = digestOf(key.String())
	}
	found, err := collect(ctx, i, pgx.RowTo[[16]byte], `SELECT digest FROM {s}.inbox_ledger WHERE digest = ANY ($1)
		UNION ALL SELECT digest FROM {s}.inbox_undated WHERE digest = ANY ($1)`, digests)
	if err != nil {
		return nil, err
	}
	known := make(map[[16]byte]bool, len(found))
	for _, digest := range found {
		known[digest] = true
	}
	return engine.Missing(keys, func(key webhook.Key) bool { return known[digestOf(key.String()).Bytes] }), nil
}

// ClaimCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) (state []byte, err error) {
	err = i.checkpoint(ctx, &state, `INSERT INTO {s}.inbox_checkpoints AS c (name, holder, until)
		VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE c.holder = excluded.holder OR c.until <= clock_timestamp() RETURNING state`, name, holder, ttl)
	return state, err
}

// SaveCheckpoint implements [reconcile.Checkpoints].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	return i.checkpoint(ctx, new([]byte), `UPDATE {s}.inbox_checkpoints SET state = $4, until = clock_timestamp() + $3::interval
		WHERE name = $1 AND holder = $2 AND until > clock_timestamp() RETURNING state`, name, holder, ttl, state)
}

// ReadCheckpoint implements [reconcile.CheckpointReader].
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) (state []byte, err error) {
	err = i.pool.QueryRow(ctx, i.sql("SELECT state FROM {s}.inbox_checkpoints WHERE name = $1"), name).Scan(&state)
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
	_, err := i.exec(ctx, "UPDATE {s}.inbox_checkpoints SET holder = '', until = '-infinity' WHERE name = $1 AND holder = $2", name, holder)
	return err
}
