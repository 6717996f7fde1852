package riverinbox

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dispensary-go/dispensary/webhook/engine"
)

// returning returns the state of a checkpoint. Base64 does not depend on settings of the session.
const returning = "encode(state, 'base64')"

// ClaimCheckpoint implements [reconcile.Inbox]. It ignores a claim with an end more than a day
// too late, from before a correction of the clock.
func (i *Inbox) ClaimCheckpoint(ctx context.Context, name, holder string, ttl time.Duration) ([]byte, error) {
	return i.checkpoint(ctx, `INSERT INTO {s}.inbox_checkpoints AS c (name, holder, until)
		VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE c.holder = excluded.holder OR c.until <= clock_timestamp() OR c.until > clock_timestamp() + $3::interval + interval '1 day'
		RETURNING `+returning, name, holder, ttl)
}

// SaveCheckpoint implements [reconcile.Inbox].
func (i *Inbox) SaveCheckpoint(ctx context.Context, name, holder string, state []byte, ttl time.Duration) error {
	_, err := i.checkpoint(ctx, `UPDATE {s}.inbox_checkpoints SET state = $4, until = clock_timestamp() + $3::interval
		WHERE name = $1 AND holder = $2 AND until > clock_timestamp() RETURNING `+returning, name, holder, ttl, state)
	return err
}

// checkpoint changes a checkpoint unless another holder has claimed it.
func (i *Inbox) checkpoint(ctx context.Context, statement string, args ...any) ([]byte, error) {
	states, err := read(ctx, i.db, scanState, statement, args...)
	switch {
	case err != nil:
		return nil, err
	case len(states) == 0:
		return nil, engine.ErrCheckpointHeld
	}
	return states[0], nil
}

// ReadCheckpoint returns the last saved state, or nil. It claims nothing.
func (i *Inbox) ReadCheckpoint(ctx context.Context, name string) ([]byte, error) {
	states, err := collect(ctx, i.db, scanState, "SELECT "+returning+" FROM {s}.inbox_checkpoints WHERE name = $1", name)
	if err != nil || len(states) == 0 {
		return nil, err
	}
	return states[0], nil
}

// ReleaseCheckpoint implements [reconcile.Inbox]. It works after Close.
func (i *Inbox) ReleaseCheckpoint(ctx context.Context, name, holder string) error {
	_, err := i.db.exec(ctx, "UPDATE {s}.inbox_checkpoints SET holder = '', until = '-infinity' WHERE name = $1 AND holder = $2", name, holder)
	return err
}

func scanState(row pgx.CollectableRow) ([]byte, error) {
	var text *string
	if err := row.Scan(&text); err != nil || text == nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(*text) // ignores PostgreSQL's line breaks
}
