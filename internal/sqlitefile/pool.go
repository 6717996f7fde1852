package sqlitefile

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// Pool guards a database that a store uses through a pool of connections. A nil Pool guards
// nothing. It is safe for concurrent use.
type Pool struct {
	db *sql.DB

	mu    sync.Mutex
	known bool   // guard is set
	guard *Guard // nil for a database in memory
}

// NewPool returns the guard of the SQLite database that db has open. It asks the database
// for its path at the first [Pool.Do].
func NewPool(db *sql.DB) *Pool { return &Pool{db: db} }

// Do calls run, which reads from or writes to the database. It fails with [ErrUnsafePath],
// and with [ErrReplaced] if a file was replaced: before run, or after a run that wrote, whose
// result then does not count.
func (p *Pool) Do(ctx context.Context, writes bool, run func() error) error {
	if p == nil {
		return run()
	}
	guard, err := p.open(ctx)
	switch {
	case err != nil:
		return err
	case guard == nil:
		return run()
	}
	if err := guard.Check(); err != nil {
		return err
	}
	if err := run(); err != nil || !writes {
		return err
	}
	return guard.Check()
}

// open returns the guard, which it creates once. It is nil for a database in memory.
func (p *Pool) open(ctx context.Context) (*Guard, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known {
		return p.guard, nil
	}
	path, err := Path(ctx, p.db)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if err := CheckPath(path); err != nil {
			return nil, err
		}
		if p.guard, err = NewGuard(Config{Path: path, Failed: func(error) { p.park() }}); err != nil {
			return nil, err
		}
	}
	p.known = true
	return p.guard, nil
}

// park leaks an idle connection for the rest of the process. SQLite removes the log, by its
// path, with the last connection to a database. If another process uses the path by now,
// that would be the log of the other process.
func (p *Pool) park() {
	if p.db.Stats().Idle == 0 {
		return // a new connection would open the other file
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = p.db.Conn(ctx)
}
