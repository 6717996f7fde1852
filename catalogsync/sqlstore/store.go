package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/contention"
	"github.com/dispensary-go/dispensary/internal/failover"
	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// Store is a [catalogsync.Store] in tables that [Migrate] made. It is safe for concurrent
// use; make one for a database and share it.
type Store struct {
	db      *sql.DB
	pool    pool
	dialect Dialect
	sql     statements

	// writing serializes the writers of this process where the database is a file, which
	// has one writer at a time: waiting here is fair and costs nothing, waiting in the
	// driver is a matter of luck. Nil elsewhere.
	writing  chan struct{}
	lock     atomic.Pointer[filelock.Lock] // of the sync that runs, in SQLite
	prepared map[string]*sql.Stmt          // by their SQL; see prepare
}

// pool runs statements on one connection of a pool.
type pool interface {
	Do(ctx context.Context, run func(*sql.Conn) error) error
}

var _ catalogsync.Store = (*Store)(nil)

// New returns a store in db, which stays the caller's to close. It asks the database
// nothing. Errors are [api.ArgumentError].
func New(db *sql.DB, dialect Dialect) (*Store, error) {
	if db == nil {
		return nil, &api.ArgumentError{Field: "sqlstore.New db", Reason: "is nil"}
	}
	if err := dialect.validate(); err != nil {
		return nil, err
	}
	s := &Store{db: db, pool: failover.SQL(db), dialect: dialect, sql: newStatements(dialect)}
	if dialect == SQLite {
		s.pool, s.writing = sqlitefile.NewPool(db), make(chan struct{}, 1)
	}
	return s, nil
}

// String says what the store is and nothing of what it holds.
func (s *Store) String() string {
	return "sqlstore.Store{" + string(s.dialect) + "}"
}

// Format prints [Store.String] for every verb.
func (s *Store) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

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

// micros and fromMicros are times in columns, and exact is a time as a column has it.
func micros(t time.Time) int64     { return t.UnixMicro() }
func fromMicros(n int64) time.Time { return time.UnixMicro(n).UTC() }
func exact(t time.Time) time.Time  { return fromMicros(micros(t)) }
