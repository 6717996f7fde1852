package riverinbox

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Config configures an [Inbox]. Work.Handle and Seal are required. All processes should have the
// same configuration.
type Config struct {
	// Work configures the handling of events.
	Work webhook.Work

	// Seal encrypts bodies and errors. [seal.InsecurePlaintext] stores them readable.
	Seal seal.AEAD

	// Schema is the PostgreSQL schema of all tables: up to 46 letters, digits and underscores. No
	// other client of River may use it. Empty means dispensary_inbox.
	Schema string

	// TakeOver is the time without a heartbeat after which other processes handle the events
	// of a process, at least a second. 0 means 30 seconds. If a process cannot reach the
	// database for two thirds of it, the contexts of its handlers end.
	TakeOver time.Duration

	// PollOnly lets River poll for events every 250 ms, without LISTEN, for PgBouncer.
	PollOnly bool

	sweepEvery time.Duration // for tests
	script     string        // of another release, for tests
}

// Inbox implements [engine.Engine] on PostgreSQL and River.
type Inbox struct {
	config   Config
	worker   *inboxkit.Worker
	client   *river.Client[pgx.Tx] // nil if this process only accepts
	db       *database
	accepts  *accepts
	attempts *attempts
	ledger   *ledger
	heart    *heart
	bell     *bell
	life     *inboxkit.Lifecycle
	starting sync.Mutex // prevents a start after Close has stopped the client
	loops    sync.WaitGroup
	ended    chan struct{} // closed after the last write
}

var _ engine.Engine = (*Inbox)(nil)
var _ reconcile.Inbox = (*Inbox)(nil)

// Accept implements [webhook.Inbox]. Concurrent calls share a transaction. Errors:
// [webhook.ErrInboxClosed], the error of ctx, [webhook.ErrUnstorable] for a key of more than 2,600
// bytes, and errors of the database without data of the event.
func (i *Inbox) Accept(ctx context.Context, d webhook.Delivery) (webhook.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return webhook.Receipt{}, err
	}
	if i.life.Stopped() {
		return webhook.Receipt{}, webhook.ErrInboxClosed
	}
	a, err := i.accepts.encode(d)
	if err != nil {
		return webhook.Receipt{}, err
	}
	for {
		if err := i.accepts.batches.Do(ctx, a); err != nil {
			return webhook.Receipt{}, err
		}
		if !a.busy {
			return webhook.Receipt{Duplicate: !a.fresh}, nil
		}
		select { // another transaction is storing the event
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return webhook.Receipt{}, ctx.Err()
		}
	}
}

// Close implements [engine.Engine]. It returns within a few seconds after the end of ctx. If the
// database does not respond, it returns the error of ctx.
func (i *Inbox) Close(ctx context.Context) error {
	return i.life.Close(ctx, func() {
		i.starting.Lock()
		defer i.starting.Unlock()
		if i.client != nil {
			_ = i.client.Stop(context.Background()) // fails only if its context ends
		}
	}, func() error {
		i.accepts.batches.Close()
		i.attempts.begins.Close()
		i.attempts.outcomes.batches.Close()
		close(i.ended)
		i.loops.Wait()
		select {
		case <-i.bell.rung: // by the last events
			ctx, cancel := context.WithTimeout(context.Background(), i.life.Patience)
			defer cancel()
			_ = i.bell.announce(ctx) // otherwise a sweep does
		default:
		}
		return nil
	})
}

// every calls f after each d, minus a random quarter, until the last write has ended.
func (i *Inbox) every(d time.Duration, complaint string, f func(context.Context) error) {
	i.loops.Go(func() {
		for {
			select {
			case <-time.After(d - rand.N(d/4)):
				i.db.warn(complaint, f(i.life.Context()))
			case <-i.ended:
				return
			}
		}
	})
}

// CheckWrite implements [engine.Engine]. It accepts no event, and stores a heartbeat.
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	if err := i.accepts.insert(ctx, nil); err != nil {
		return err
	}
	return i.heart.live(ctx)
}

// Stats implements [engine.Engine].
func (i *Inbox) Stats(ctx context.Context) (engine.Stats, error) {
	all, err := read(ctx, i.db, pgx.RowToStructByPos[struct {
		Waiting, Running, Dead int
		Oldest                 *time.Time
	}], "SELECT * FROM {s}.inbox_stats()")
	if err != nil {
		return engine.Stats{}, err
	}
	s := engine.Stats{Waiting: all[0].Waiting, Running: all[0].Running, Dead: all[0].Dead, Overdue: i.worker.Overdue()}
	if all[0].Oldest != nil {
		s.Oldest = all[0].Oldest.UTC()
	}
	return s, nil
}

// Missing implements [reconcile.Inbox].
func (i *Inbox) Missing(ctx context.Context, keys []webhook.Key) ([]webhook.Key, error) {
	return i.ledger.missing(ctx, keys)
}

// Finished implements [engine.Engine]. It knows the times of discarded events only. An event
// deleted in River by a person counts as discarded.
func (i *Inbox) Finished(ctx context.Context, eventID string) ([]engine.Finished, error) {
	return i.ledger.finished(ctx, eventID)
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "riverinbox.Inbox") }
