// Package mutant makes deliberate mistakes between the packages of this project and a database
// driver. Tests use it to prove that they find such mistakes.
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

// Mutant is one mistake.
type Mutant struct {
	// Name describes the mistake.
	Name string

	// Rewrite returns the statement to run instead of its argument. Nil changes no statement.
	Rewrite func(string) string

	// Late delays each prepared COMMIT until the next statement, but reports it as done
	// immediately.
	Late bool

	applied atomic.Int64
	mu      sync.Mutex
	late    func() error
}

// Applied returns the number of times that the mistake was made.
func (m *Mutant) Applied() int { return int(m.applied.Load()) }

// Open opens a database like [sql.Open], with the mistake in all connections.
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

// interceptor intercepts the calls between database/sql and a driver.
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

// ConnPrepareContext implements [sqlmw.Interceptor], like the methods below. It prepares the
// rewritten statement.
func (i *interceptor) ConnPrepareContext(ctx context.Context, conn driver.ConnPrepareContext, query string) (context.Context, driver.Stmt, error) {
	if err := i.mutant.catchUp(); err != nil {
		return ctx, nil, err
	}
	stmt, err := conn.PrepareContext(ctx, i.mutant.mutate(query))
	return ctx, stmt, err
}

// ConnExecContext runs an unprepared statement.
func (i *interceptor) ConnExecContext(ctx context.Context, conn driver.ExecerContext, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := i.mutant.catchUp(); err != nil {
		return nil, err
	}
	return conn.ExecContext(ctx, i.mutant.mutate(query), args)
}

// ConnQueryContext runs an unprepared query.
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

// StmtClose closes a prepared statement. It runs a delayed commit first, because the commit may
// need the statement.
func (i *interceptor) StmtClose(_ context.Context, stmt driver.Stmt) error {
	return errors.Join(i.mutant.catchUp(), stmt.Close())
}

// catchUp runs the delayed commit, if there is one.
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
