// Package mutant makes deliberate mistakes in what the packages of this project say to a
// database, between them and the driver, for tests that have to find them.
package mutant

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ngrok/sqlmw"
)

// Mutant is a mistake.
type Mutant struct {
	// Name says what is wrong.
	Name string

	// Rewrite returns what is said in place of a statement. Nil changes nothing.
	Rewrite func(string) string

	// Late has the commits of prepared statements done when the next statement comes,
	// after they were reported as done.
	Late bool

	applied atomic.Int64
	mu      sync.Mutex
	late    func() error
}

// Applied returns how often the mistake was made.
func (m *Mutant) Applied() int { return int(m.applied.Load()) }

// Open is [sql.Open] with the mistake.
func (m *Mutant) Open(driverName, dsn string) (*sql.DB, error) {
	plain, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	name := driverName + rand.Text()
	sql.Register(name, sqlmw.Driver(plain.Driver(), &interceptor{mutant: m}))
	db, err := sql.Open(name, dsn)
	return db, errors.Join(err, plain.Close())
}

// interceptor stands between database/sql and a driver.
type interceptor struct {
	sqlmw.NullInterceptor
	mutant *Mutant
}

func (m *Mutant) mutate(query string) string {
	if m.Rewrite == nil {
		return query
	}
	instead := m.Rewrite(query)
	if instead != query {
		m.applied.Add(1)
	}
	return instead
}

// ConnPrepareContext implements [sqlmw.Interceptor], as the others do.
func (i *interceptor) ConnPrepareContext(ctx context.Context, conn driver.ConnPrepareContext, query string) (context.Context, driver.Stmt, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	stmt, err := conn.PrepareContext(ctx, i.mutant.mutate(query))
	return ctx, stmt, err
}

// ConnExecContext runs a statement that is not prepared.
func (i *interceptor) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := i.mutant.catchUp(); err != nil {
		return nil, err
	}
	return conn.ExecContext(ctx, i.mutant.mutate(query), args)
}

// ConnQueryContext runs a query that is not prepared.
func (i *interceptor) ConnQueryContext(ctx context.Context, conn driver.QueryerContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	rows, err := conn.QueryContext(ctx, i.mutant.mutate(query), args)
	return ctx, rows, err
}

// StmtExecContext runs a prepared statement.
func (i *interceptor) StmtExecContext(ctx context.Context, stmt driver.StmtExecContext, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := i.mutant.catchUp(); err != nil {
		return nil, err
	}
	if i.mutant.Late && query == "COMMIT" {
		i.mutant.applied.Add(1)
		i.mutant.mu.Lock()
		defer i.mutant.mu.Unlock()
		i.mutant.late = func() error {
			_, err := stmt.ExecContext(context.WithoutCancel(ctx), args)
			return err
		}
		return driver.RowsAffected(0), nil
	}
	return stmt.ExecContext(ctx, args)
}

// StmtQueryContext runs a prepared query.
func (i *interceptor) StmtQueryContext(ctx context.Context, stmt driver.StmtQueryContext, query string, args []driver.NamedValue) (context.Context, driver.Rows, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	rows, err := stmt.QueryContext(ctx, args)
	return ctx, rows, err
}

// StmtClose closes a prepared statement, which may be a late commit.
func (i *interceptor) StmtClose(_ context.Context, stmt driver.Stmt) error {
	return errors.Join(i.mutant.catchUp(), stmt.Close())
}

// catchUp does what was reported as done.
func (m *Mutant) catchUp() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.late == nil {
		return nil
	}
	late := m.late
	m.late = nil
	return late()
}
