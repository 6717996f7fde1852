package riverinbox

import (
	"context"
	"time"
)

// bell tells all processes that events are available.
type bell struct {
	*database
	pollOnly bool
	rung     chan struct{} // by ring
}

// ring lets answer announce changed jobs.
func (b *bell) ring() {
	select {
	case b.rung <- struct{}{}:
	default: // answer has not run yet
	}
}

// answer announces changed jobs at most once in 20 ms, until ended is closed.
func (b *bell) answer(ended <-chan struct{}) {
	for {
		select {
		case <-b.rung:
			b.warn("webhook inbox cannot announce events", b.announce(b.life.Context()))
			time.Sleep(20 * time.Millisecond)
		case <-ended:
			return
		}
	}
}

// announce makes the next jobs of changed ordering keys available, and notifies River's clients.
// PostgreSQL commits one notifying transaction at a time on the whole server, so this one does not
// wait for the disk, and it holds no lock of an ordering key.
func (b *bell) announce(ctx context.Context) error {
	for moved := groupSize; moved == groupSize; {
		var err error
		if moved, err = one[int](ctx, b.database, "SELECT {s}.inbox_settle()"); err != nil {
			return err
		}
	}
	if b.pollOnly {
		return nil
	}
	_, err := b.exec(ctx, `SELECT set_config('synchronous_commit', 'off', true), pg_notify('{plain}.river_insert', '{"queue": "{queue}"}')`)
	return err
}
