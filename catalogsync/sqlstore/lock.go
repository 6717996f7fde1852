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
// which stays: the name of the database with ".dispensary_catalog_lock". In PostgreSQL it is an advisory lock of a connection, which is taken from the
// pool until unlock is called. Both end with the process.
func (s *Store) Lock(ctx context.Context) (unlock func() error, err error) {
	if s.writing != nil { // a file
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
		return nil, &api.ArgumentError{Field: "sqlstore.Open db", Reason: "is in memory, where no other process can see it: use catalogsync.NewMemoryStore"}
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

// checkLock fails with [catalogstore.ErrSyncing] if the lock file of a sync was removed,
// so that another process can sync.
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
		return nil, &api.ArgumentError{Field: "sqlstore.Open db", Reason: "has a pool of one connection, which the lock needs for itself"}
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

// sessionKey is the key of the advisory lock: databases have their own, schemas have not.
const sessionKey = `hashtextextended(current_schema() || '.dispensary_catalog', 0)`

// unlockSession ends the lock, if need be with its connection.
func (s *Store) unlockSession(conn *sql.Conn) error {
	_, err := conn.ExecContext(context.Background(), `SELECT pg_advisory_unlock(`+sessionKey+`)`)
	if err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		return failed(context.Background(), "unlock", err)
	}
	return conn.Close()
}
