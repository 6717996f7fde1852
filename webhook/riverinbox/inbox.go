package riverinbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/internal/failover"
	"github.com/dispensary-go/dispensary/internal/inboxkit"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Inbox implements [engine.Engine] on PostgreSQL and River.
type Inbox struct {
	config Config
	worker *inboxkit.Worker
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // nil if this process only accepts
	name   string                // of this process and of client
	names  *strings.Replacer

	accepts *inboxkit.Batcher[*accept]
	apart   struct { // of storeApart
		sync.Mutex
		sync.WaitGroup
	}
	begins   *inboxkit.Batcher[*fetched]
	outcomes *inboxkit.Batcher[*outcome]
	days     atomic.Pointer[[]time.Time] // of the ledger
	alive    *alive
	others   others
	adrift   []try         // attempts without a handler in the last beat
	woken    chan struct{} // by wake
	life     *inboxkit.Lifecycle
	loops    sync.WaitGroup
	ended    chan struct{} // closed after the last handler
}

var _ engine.Engine = (*Inbox)(nil)
var _ reconcile.Inbox = (*Inbox)(nil)

// Close implements [engine.Engine]. It returns within a few seconds after the end of ctx. If the
// database does not respond, it returns the error of ctx.
func (i *Inbox) Close(ctx context.Context) error {
	return i.life.Close(ctx, func() {
		if i.client != nil {
			_ = i.client.Stop(context.Background()) // fails only if its context ends
		}
	}, func() error {
		close(i.ended)
		i.loops.Wait()
		i.begins.Close()
		i.outcomes.Close()
		i.accepts.Close()
		i.apart.Wait()
		return nil
	})
}

// every calls f after each d, minus a random quarter, until the last handler has ended.
func (i *Inbox) every(d time.Duration, complaint string, f func(context.Context) error) {
	i.loops.Go(func() {
		for {
			select {
			case <-time.After(d - rand.N(d/4)):
				i.warn(complaint, f(i.life.Context()))
			case <-i.ended:
				return
			}
		}
	})
}

// warn logs err if it is not nil.
func (i *Inbox) warn(complaint string, err error) {
	if err != nil && i.life.Context().Err() == nil {
		i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, complaint, slog.String("reason", err.Error()))
	}
}

// wake lets announce notify all processes of events.
func (i *Inbox) wake() {
	select {
	case i.woken <- struct{}{}:
	default: // announce has not run yet
	}
}

// announce notifies River's clients of events, at most once in 20 ms. PostgreSQL commits one
// notifying transaction at a time on the whole server, so this one does not wait for the disk.
func (i *Inbox) announce() {
	for {
		select {
		case <-i.woken:
			_, err := i.exec(i.life.Context(), `SELECT set_config('synchronous_commit', 'off', true), pg_notify('{plain}.river_insert', '{"queue": "{queue}"}')`)
			i.warn("webhook inbox cannot announce events", err)
			time.Sleep(20 * time.Millisecond)
		case <-i.ended:
			return
		}
	}
}

// sql replaces the placeholders of a statement.
func (i *Inbox) sql(statement string) string { return i.names.Replace(statement) }

// failed wraps the error of a statement. After a failover, the pool can keep connections to a
// read-only server. They respond, so neither pgx nor River closes them. failed closes them all,
// at the latest after the next beat.
func (i *Inbox) failed(err error) error {
	if failover.Stale(err) {
		i.pool.Reset()
	}
	return fmt.Errorf("riverinbox: %w", err)
}

// exec executes a statement and returns the number of its rows.
func (i *Inbox) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := i.pool.Exec(ctx, i.sql(statement), args...)
	if err != nil {
		return 0, i.failed(err)
	}
	return tag.RowsAffected(), nil
}

// collect returns the rows of a query.
func collect[T any](ctx context.Context, i *Inbox, scan pgx.RowToFunc[T], statement string, args ...any) (all []T, err error) {
	rows, err := i.pool.Query(ctx, i.sql(statement), args...)
	if err == nil {
		all, err = pgx.CollectRows(rows, scan)
	}
	if err != nil {
		return nil, i.failed(err)
	}
	return all, nil
}

// read is collect, but it fails after Close.
func read[T any](ctx context.Context, i *Inbox, scan pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	if i.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	return collect(ctx, i, scan, statement, args...)
}

// one returns the single value of a query.
func one[T any](ctx context.Context, i *Inbox, statement string, args ...any) (value T, err error) {
	all, err := collect(ctx, i, pgx.RowTo[T], statement, args...)
	if err == nil {
		value = all[0]
	}
	return value, err
}

// CheckWrite implements [engine.Engine]. It writes a checkpoint.
func (i *Inbox) CheckWrite(ctx context.Context) error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	_, err := i.exec(ctx, `INSERT INTO {s}.inbox_checkpoints (name, holder, until) VALUES ('write check', '', '-infinity')
		ON CONFLICT (name) DO UPDATE SET until = excluded.until`)
	return err
}

// Format prints the type only.
func (i *Inbox) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "riverinbox.Inbox") }
