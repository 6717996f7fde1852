package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/contention"
	"github.com/dispensary-go/dispensary/internal/failover"
	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// Store implements [catalogstore.Store] on database/sql. Create it with [Open]. It is safe for
// concurrent use. Create one for each database and share it.
type Store struct {
	db   *sql.DB
	pool pool
	sql  statements

	// writing serializes the writers of this process on SQLite, which allows one writer at a
	// time. Waiting here is fair and cheap, while the driver polls. Nil for PostgreSQL.
	writing chan struct{}
	lock    atomic.Pointer[filelock.Lock] // of the running sync, in SQLite
}

// pool runs statements on one connection of a pool.
type pool interface {
	Do(ctx context.Context, run func(*sql.Conn) error) error
}

var _ catalogstore.Store = (*Store)(nil)

// Open returns a store in db, which you must close yourself. It detects PostgreSQL and SQLite, and
// creates or migrates the tables. If they have the version of this release, it only reads, so a
// role without the right to create tables can call it. Several processes may call it at the same
// time.
//
// Errors:
//
//   - [*api.ArgumentError]: db is nil, or neither PostgreSQL nor SQLite.
//   - [*api.SchemaError]: another program created a table, or a newer release no longer admits
//     this one. Open changes nothing then.
//   - Errors of the database.
func Open(ctx context.Context, db *sql.DB) (*Store, error) {
	if db == nil {
		return nil, &api.ArgumentError{Field: "sqlstore.Open db", Reason: "is nil"}
	}
	dialect, err := sqlschema.DialectOf(ctx, db)
	if err != nil {
		return nil, failed(ctx, "open", err)
	}
	s := &Store{db: db, sql: newStatements(dialect)}
	schema := sqlschema.Schema{Dialect: dialect, Migrate: "sqlstore.Open"}
	switch dialect {
	case sqlschema.PostgreSQL:
		s.pool, schema.Script = failover.SQL(db), PostgreSQLSchema
	case sqlschema.SQLite:
		s.pool, schema.Script, s.writing = sqlitefile.NewPool(db), SQLiteSchema, make(chan struct{}, 1)
	default:
		return nil, &api.ArgumentError{Field: "sqlstore.Open db", Reason: "is neither PostgreSQL nor SQLite"}
	}
	if err := schema.Create(ctx, db); err != nil {
		return nil, failed(ctx, "open", err)
	}
	return s, nil
}

// failed adds the operation to err. It also adds the error of ctx, because some drivers return
// another error if the context ends.
func failed(ctx context.Context, op string, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("catalogsync/sqlstore: %s: %w: %w", op, ended, err)
	}
	return fmt.Errorf("catalogsync/sqlstore: %s: %w", op, err)
}

// querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// read returns all rows of a statement that changes nothing.
func read[T any](ctx context.Context, s *Store, op string, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	err = contention.Retry(ctx, func() error {
		return s.pool.Do(ctx, func(conn *sql.Conn) (err error) {
			all, err = rowsOf(ctx, conn, scan, query, args...)
			return err
		})
	})
	if err != nil {
		return nil, failed(ctx, op, err)
	}
	return all, nil
}

func rowsOf[T any](ctx context.Context, q querier, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func scanText(rows *sql.Rows) (text string, err error) {
	err = rows.Scan(&text)
	return text, err
}

// micros and fromMicros convert the times of columns, and exact rounds a time to the precision
// of a column.
func micros(t time.Time) int64     { return t.UnixMicro() }
func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }
func exact(t time.Time) time.Time  { return fromMicros(micros(t)) }
