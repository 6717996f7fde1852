package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/failover"
)

// Pool guards a database that a store uses through a connection pool. It is safe for
// concurrent use.
type Pool struct {
	inner failover.Pool[*sql.Conn]

	mu    sync.Mutex
	known bool      // guard is set
	guard *Guard    // nil for a database in memory
	kept  *sql.Conn // see keep
}

// NewPool returns a guarded pool for db, which must be a SQLite database. The first [Pool.Do]
// queries the path of the database.
func NewPool(db *sql.DB) *Pool {
	p := &Pool{inner: failover.SQL(db)}
	release := p.inner.Release
	p.inner.Release = func(c *sql.Conn) {
		if !p.keeps(c) {
			release(c)
		}
	}
	return p
}

// Do calls run with a connection, like [failover.Pool.Do]. It fails with [api.ErrUnsafePath],
// or with [api.ErrReplaced] if a file was replaced before run was called or before run
// returned. The caller must then discard the result of run.
func (p *Pool) Do(ctx context.Context, run func(*sql.Conn) error) error {
	if err := p.err(); err != nil {
		return err
	}
	return p.inner.Do(ctx, func(conn *sql.Conn) error {
		guard, err := p.open(ctx, conn)
		switch {
		case err != nil:
			return err
		case guard == nil:
			return run(conn)
		}
		if err := p.keep(conn, guard.check(false)); err != nil {
			return err
		}
		if err := run(conn); err != nil {
			return err
		}
		return p.keep(conn, guard.check(true))
	})
}

// err returns the error of a replaced database, or nil. It needs no connection.
func (p *Pool) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.guard == nil {
		return nil
	}
	return p.guard.Err()
}

// open returns the guard, which it creates once. The guard is nil for a database in memory.
func (p *Pool) open(ctx context.Context, conn *sql.Conn) (*Guard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.guard, nil
	}
	path, err := Path(ctx, conn)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if err := CheckPath(path); err != nil {
			return nil, err
		}
		if p.guard, err = NewGuard(Config{Path: path}); err != nil {
			return nil, err
		}
	}
	p.known = true
	return p.guard, nil
}

// keep returns err. If a file was replaced, it keeps one connection out of the pool until the
// process ends. SQLite removes the log by its path when the last connection to a database
// closes. If another process uses the path by then, SQLite would remove the log of the other
// process.
func (p *Pool) keep(conn *sql.Conn, err error) error {
	if errors.Is(err, api.ErrReplaced) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.kept == nil {
			p.kept = conn
		}
	}
	return err
}

func (p *Pool) keeps(conn *sql.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept == conn
}
