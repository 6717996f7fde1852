package publish

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

var _ reconcile.Checkpoints = (*Ledger)(nil)

// ClaimCheckpoint implements [reconcile.Checkpoints].
func (l *Ledger) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	var state []byte
	err := l.exec(ctx, `INSERT INTO {table}_checkpoints (name, holder, held_until) VALUES (?, '', 0) `+fmt.Sprintf(l.dialect.ignore, "name"), name)
	if err == nil {
		err = l.exec(ctx, `UPDATE {table}_checkpoints SET holder = ?, held_until = {now} + ? WHERE name = ? AND (holder = ? OR held_until <= {now})`,
			holder, ttl.Microseconds(), name, holder)
	}
	if err == nil {
		state, err = l.held(ctx, name, holder)
	}
	if err != nil && ctx.Err() != nil {
		// The claim may have been made, and the caller will not release it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = l.ReleaseCheckpoint(ctx, name, holder)
	}
	return state, err
}

// SaveCheckpoint implements [reconcile.Checkpoints].
func (l *Ledger) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	err := l.exec(ctx, `UPDATE {table}_checkpoints SET state = ?, held_until = {now} + ? WHERE name = ? AND holder = ? AND held_until > {now}`,
		state, ttl.Microseconds(), name, holder)
	if err == nil {
		_, err = l.held(ctx, name, holder)
	}
	return err
}

// ReleaseCheckpoint implements [reconcile.Checkpoints].
func (l *Ledger) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	return l.exec(ctx, `UPDATE {table}_checkpoints SET held_until = 0 WHERE name = ? AND holder = ?`, name, holder)
}

// held returns the state if holder holds the checkpoint. How many rows an UPDATE has
// changed would not tell: MySQL does not count what it finds as it is to be.
func (l *Ledger) held(ctx context.Context, name, holder string) (state []byte, err error) {
	query := l.sql(`SELECT state FROM {table}_checkpoints WHERE name = ? AND holder = ? AND held_until > {now}`)
	switch err := l.config.DB.QueryRowContext(ctx, query, name, holder).Scan(&state); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, reconcile.ErrCheckpointHeld
	case err != nil:
		return nil, ledgerError(err)
	}
	return state, nil
}
