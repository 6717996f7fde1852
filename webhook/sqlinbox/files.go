package sqlinbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	"modernc.org/sqlite" // the driver of Open

	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/webhook"
)

// POSIX locks end if the program closes any descriptor of the database, for example after
// copying it. If another process then closes its last connection to the database, it removes
// the log. The switch is for the whole process and must come before the first connection. The
// error is ignored and leaves the POSIX locks: the kernel has no others, or the program opened
// a database while its packages were initialized.
var _, _ = sqlite.OFDLocking(true)

// files are the files of the inbox: its database, log and lock file.
type files struct {
	path     string // argument of Open
	resolved string // resolved by SQLite
	lock     *filelock.Lock
	owner    *sqlitefile.Owner
	guard    *sqlitefile.Guard
}

// lockFiles locks the open database db. path is the argument of Open, or "".
func lockFiles(ctx context.Context, db *sql.DB, path string) (_ *files, err error) {
	f := &files{path: path}
	if f.resolved, err = sqlitefile.Path(ctx, db); err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	if f.resolved == "" {
		return nil, errors.New("sqlinbox: database is in memory: use a file or package memoryinbox")
	}
	if path == "" {
		f.path = f.resolved
	}
	if err := sqlitefile.CheckPath(f.resolved); err != nil {
		return nil, fmt.Errorf("sqlinbox: %w", err)
	}
	if f.lock, err = filelock.Acquire(f.resolved + ".lock"); err == nil {
		// A start script may have removed the lock file of a running process.
		f.owner, err = sqlitefile.Own(f.resolved, func() bool {
			_, ours := db.Driver().(*sqlite.Driver)
			return ours && sqlite.OFDLockingEnabled()
		})
	}
	switch {
	case err == nil:
		return f, nil
	case f.lock != nil:
		_ = f.lock.Close()
	}
	if errors.Is(err, filelock.ErrHeld) {
		return nil, ErrInUse
	}
	return nil, fmt.Errorf("sqlinbox: lock: %w", err)
}

func (f *files) unlock() error { return errors.Join(f.owner.Release(), f.lock.Close()) }

// watch remembers the open files. The connection of the writer keeps the log.
func (f *files) watch(failed func(error)) (err error) {
	f.guard, err = sqlitefile.NewGuard(sqlitefile.Config{Path: f.path, Lock: f.lock, Pinned: true, Failed: failed})
	if err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return nil
}

// check fails with [api.ErrReplaced] if a path names another file than the open one.
func (f *files) check() error {
	if err := f.guard.Check(); err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return nil
}

// failed is check without reading the paths.
func (f *files) failed() error {
	if err := f.guard.Err(); err != nil {
		return fmt.Errorf("sqlinbox: %w", err)
	}
	return nil
}

// close closes the connection of the writer. It leaves the connection open if the log at the
// path belongs to another process: SQLite would remove that log with the last connection.
func (f *files) close(conn *sql.Conn) error {
	if f.failed() != nil && !f.guard.OwnsLog() {
		return nil
	}
	return conn.Close()
}

// replaced logs that the inbox has stopped.
func (i *Inbox) replaced(err error) {
	i.worker.Work().Logger.LogAttrs(i.life.Context(), slog.LevelError, "webhook inbox stopped: restart the process", slog.String("reason", err.Error()))
}

// readable fails if the inbox was closed or its files were replaced.
func (i *Inbox) readable() error {
	if i.life.Stopped() {
		return webhook.ErrInboxClosed
	}
	return i.files.check()
}
