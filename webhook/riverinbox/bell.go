package riverinbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// bell tells all processes that events are available.
type bell struct {
	*database
	pollOnly bool
	rung     chan struct{} // by ring
	seen     int64         // ID of the last change in inbox_moves
}

// ring lets run announce changed jobs.
func (b *bell) ring() {
	select {
	case b.rung <- struct{}{}:
	default: // run has not announced the last ones yet
	}
}

// run announces changed jobs at most once in 20 ms, until ended is closed.
func (b *bell) run(ended <-chan struct{}) {
	for {
		select {
		case <-b.rung:
			b.warn("webhook inbox cannot announce events", b.announce(b.life.Context()))
		case <-ended:
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return
		}
	}
}

// announce makes the next jobs of changed ordering keys available, and notifies River's clients.
// PostgreSQL commits one notifying transaction at a time on the whole server, so this one does not
// wait for the disk, and it holds no lock of an ordering key.
func (b *bell) announce(ctx context.Context) error {
	const late = 1000 // IDs of transactions that may have committed since
	last, err := b.settle(ctx, b.seen-late)
	b.seen = max(b.seen, last)
	if err != nil || b.pollOnly {
		return err
	}
	_, err = b.exec(ctx, `SELECT set_config('synchronous_commit', 'off', true), pg_notify('{plain}.river_insert', '{"queue": "{queue}"}')`)
	return err
}

// settle moves heads for the changes beyond an ID, and returns the ID of the last change. It does not
// read all changes, because vacuum cannot remove old ones during a long transaction.
func (b *bell) settle(ctx context.Context, beyond int64) (int64, error) {
	for busy := false; ; {
		all, err := collect(ctx, b.database, pgx.RowToStructByPos[struct {
			Changes, Last int64
			Busy          bool
		}], "SELECT * FROM {s}.inbox_settle($1)", beyond)
		if err != nil {
			return beyond, err
		}
		beyond, busy = max(beyond, all[0].Last), busy || all[0].Busy
		if all[0].Changes < groupSize {
			if busy {
				b.ring()
			}
			return beyond, nil
		}
	}
}
