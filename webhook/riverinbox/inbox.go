package riverinbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/reconcile"
)

// Inbox is a [engine.Engine] on PostgreSQL and River.
type Inbox struct {
	config Config
	worker *engine.Worker
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // nil: this process only accepts
	name   string                // of this process, and of its client
	names  *strings.Replacer

	accepts  *engine.Batcher[*accept]
	outcomes *engine.Batcher[*outcome]
	days     days
	alive    *alive
	others   others
	adrift   map[try]bool  // in the last beat
	woken    chan struct{} // there are events

	life  *engine.Lifecycle
	loops sync.WaitGroup
	ended chan struct{} // closed when no handler runs any more
}

var _ interface {
	engine.Engine
	reconcile.Inbox
} = (*Inbox)(nil)

// Close implements [engine.Engine]. It returns at the latest a few seconds after the end of ctx,
// with its error if the database does not answer.
func (i *Inbox) Close(ctx context.Context) error {
	return i.life.Close(ctx, func() {
		if i.client != nil {
			_ = i.client.Stop(context.Background()) // waits for its jobs, and fails only if its context ends
		}
	}, func() error {
		close(i.ended)
		i.loops.Wait()
		i.outcomes.Close()
		i.accepts.Close()
		return nil
	})
}

// every calls f about every so often until no handler runs. The replicas do not all come at the
// same time.
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

// warn logs an error, if it is one.
func (i *Inbox) warn(complaint string, err error) {
	if err != nil && i.life.Context().Err() == nil {
		i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelWarn, complaint, slog.String("reason", err.Error()))
	}
}

// wakeEvery is how often a replica announces events at most.
const wakeEvery = 20 * time.Millisecond

// wake has all processes look for events.
func (i *Inbox) wake() {
	select {
	case i.woken <- struct{}{}:
	default: // they will
	}
}

// announce tells River's clients that there are events, in a transaction of its own that does not
// wait for the disk: PostgreSQL commits transactions that announce something one at a time, on
// the whole server. Without it River looks for events every fetchPoll.
func (i *Inbox) announce() {
	for {
		select {
		case <-i.woken:
			_, err := i.exec(i.life.Context(), `SELECT set_config('synchronous_commit', 'off', true), pg_notify('{plain}.river_insert', '{"queue": "{queue}"}')`)
			i.warn("webhook inbox cannot announce events", err)
		case <-i.ended:
			return
		}
		select {
		case <-time.After(wakeEvery):
		case <-i.ended:
			return
		}
	}
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}

// sql puts the names of the schema into a statement.
func (i *Inbox) sql(statement string) string { return i.names.Replace(statement) }

// exec executes a statement and returns how many rows it changed.
func (i *Inbox) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := i.pool.Exec(ctx, i.sql(statement), args...)
	if err != nil {
		return 0, fmt.Errorf("riverinbox: %w", err)
	}
	return tag.RowsAffected(), nil
}

// collect reads the rows of a query.
func collect[T any](ctx context.Context, i *Inbox, scan pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	return collectFrom(ctx, i, i.pool, scan, statement, args...)
}

func collectFrom[T any](ctx context.Context, i *Inbox, from querier, scan pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	rows, err := from.Query(ctx, i.sql(statement), args...)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("riverinbox: %w", err)
	}
	return all, nil
}

// one reads the only row of a query, a value.
func one[T any](ctx context.Context, i *Inbox, statement string, args ...any) (value T, err error) {
	all, err := collect(ctx, i, pgx.RowTo[T], statement, args...)
	if err == nil {
		value = all[0]
	}
	return value, err
}

// CheckWrite implements [engine.Engine]. It writes a row of the table of checkpoints, which all
// processes share.
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
