package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// Lock implements [catalogstore.Store]. In SQLite the lock is on a file beside the database,
// with the name of the database and ".dispensary_catalog_lock". The file stays after the sync.
// In PostgreSQL the lock is an advisory lock of a connection, which stays out of the pool
// until unlock is called. Both locks end with the process.
func (s *Store) Lock(ctx context.Context) (unlock func() error, err error) {
	if s.writing != nil { // SQLite
		unlock, err = s.lockFile(ctx)
	} else {
		unlock, err = s.lockSession(ctx)
	}
	if errors.Is(err, catalogstore.ErrSyncing) {
		return nil, err
	}
	if err != nil {
		return nil, failed(ctx, "lock", err)
	}
	return sync.OnceValue(unlock), nil
}

func (s *Store) lockFile(ctx context.Context) (unlock func() error, err error) {
	path, err := sqlitefile.Path(ctx, s.db)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return nil, &api.ArgumentError{Field: "sqlstore.Open db", Reason: "is in memory, so no other process can open it: use catalogsync.NewMemoryStore"}
	}
	lock, err := filelock.Acquire(path + ".dispensary_catalog_lock")
	if errors.Is(err, filelock.ErrHeld) {
		return nil, catalogstore.ErrSyncing
	}
	if err != nil {
		return nil, err
	}
	s.lock.Store(lock)
	return func() error {
		s.lock.CompareAndSwap(lock, nil)
		return lock.Close()
	}, nil
}

// checkLock fails with [catalogstore.ErrSyncing] if the lock file of a running sync was
// removed, because another process can then sync too.
func (s *Store) checkLock() error {
	lock := s.lock.Load()
	if lock == nil {
		return nil
	}
	err := lock.Check()
	if errors.Is(err, filelock.ErrLost) {
		return catalogstore.ErrSyncing
	}
	return err
}

func (s *Store) lockSession(ctx context.Context) (unlock func() error, err error) {
	if s.db.Stats().MaxOpenConnections == 1 {
		return nil, &api.ArgumentError{Field: "sqlstore.Open db", Reason: "has a pool of one connection, but the lock occupies one: allow at least two"}
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var locked bool
	err = conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock(`+sessionKey+`)`).Scan(&locked)
	if err == nil && !locked {
		err = catalogstore.ErrSyncing
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return func() error { return s.unlockSession(conn) }, nil
}

// sessionKey is the key of the advisory lock. It contains the schema, because PostgreSQL
// separates advisory locks by database only.
const sessionKey = `hashtextextended(current_schema() || '.dispensary_catalog', 0)`

// unlockSession releases the lock. If that fails, it closes the connection, which releases the
// lock too.
func (s *Store) unlockSession(conn *sql.Conn) error {
	_, err := conn.ExecContext(context.Background(), `SELECT pg_advisory_unlock(`+sessionKey+`)`)
	if err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return failed(context.Background(), "unlock", err)
	}
	return conn.Close()
}
