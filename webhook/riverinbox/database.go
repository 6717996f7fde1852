package riverinbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dispensary-go/dispensary/internal/sqldb"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/internal/inboxkit"
)

const (
	transactionTimeout = 30 * time.Second
	groupSize          = 64 // changes in a transaction: each locks a key, and a database has several thousand locks
)

// database runs the statements of an inbox.
type database struct {
	pool   *pgxpool.Pool
	names  *strings.Replacer
	logger *slog.Logger
	life   *inboxkit.Lifecycle
}

// warn logs err if it is not nil.
func (d *database) warn(complaint string, err error) {
	if err != nil && d.life.Context().Err() == nil {
		d.logger.LogAttrs(d.life.Context(), slog.LevelWarn, complaint, slog.String("reason", err.Error()))
	}
}

// sql replaces the placeholders of a statement.
func (d *database) sql(statement string) string { return d.names.Replace(statement) }

// failed wraps the error of a statement. After a failover, the pool can keep connections to a
// read-only server. They respond, so neither pgx nor River closes them. failed closes them all,
// at the latest after the next beat.
func (d *database) failed(err error) error {
	if sqldb.Stale(err) {
		d.pool.Reset()
	}
	return fmt.Errorf("riverinbox: %w", err)
}

// acquire returns a connection. The error is [engine.ErrBusy] if all connections are in use.
func (d *database) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := d.pool.Acquire(ctx)
	if err == nil {
		return conn, nil
	}
	if stat := d.pool.Stat(); ctx.Err() != nil && stat.AcquiredConns() == stat.MaxConns() {
		return nil, fmt.Errorf("riverinbox: %w: %w", engine.ErrBusy, err)
	}
	return nil, d.failed(err)
}

// exec executes a statement and returns the number of its rows.
func (d *database) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	tag, err := conn.Exec(ctx, d.sql(statement), args...)
	if err != nil {
		return 0, d.failed(err)
	}
	return tag.RowsAffected(), nil
}

// collect returns the rows of a query.
func collect[T any](ctx context.Context, d *database, scan pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	conn, err := d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, d.sql(statement), args...)
	if err != nil {
		return nil, d.failed(err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, d.failed(err)
	}
	return all, nil
}

// read is collect, but it fails after Close.
func read[T any](ctx context.Context, d *database, scan pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	if d.life.Stopped() {
		return nil, webhook.ErrInboxClosed
	}
	return collect(ctx, d, scan, statement, args...)
}

// one returns the single value of a query.
func one[T any](ctx context.Context, d *database, statement string, args ...any) (value T, err error) {
	all, err := collect(ctx, d, pgx.RowTo[T], statement, args...)
	if err == nil {
		value = all[0]
	}
	return value, err
}

// newGroup returns a batcher of transactions. size can be nil.
func newGroup[T any](size func(T) int, commit func([]*inboxkit.Write[T])) *inboxkit.Batcher[T] {
	return inboxkit.NewBatcher(inboxkit.BatcherConfig[T]{
		Commit: commit, Size: size, Limit: groupSize,
	})
}

// finish ends the writes of a batch.
func finish[T any](batch []*inboxkit.Write[T], err error) {
	for _, w := range batch {
		w.Done(err)
	}
}

// code returns the code of an error of PostgreSQL, or an empty string.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// rejected reports whether the database rejected a row.
func rejected(err error) bool {
	return strings.HasPrefix(code(err), "22") || strings.HasPrefix(code(err), "23")
}
