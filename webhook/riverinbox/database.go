package riverinbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

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

// collectFrom is collect in a transaction.
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
