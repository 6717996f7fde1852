// Package sqlitefile guards the files of an open SQLite database.
//
// SQLite opens a database, its write-ahead log and its index by path and never checks the
// paths again. If another program moves, removes or replaces one of the files, commits still
// succeed, but the next process that opens the path does not find them. A [Guard] compares the
// paths with the open files, so a store never acknowledges such a commit.
//
// The connections of a [Pool] open and close, so SQLite itself may remove and recreate the
// log. On Linux, a Pool detects whether the process still has another log open. On other Unix
// systems it detects a removed log, but not a replaced one. On Windows, no program can move or
// remove an open file.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/internal/sqldb"
)

// Querier is a database or a connection.
type Querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Path returns the path of the main database as SQLite resolved it, or "" for a database in
// memory.
func Path(ctx context.Context, db Querier) (string, error) {
	var path string
	err := db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	if err != nil || path == "" {
		return "", err
	}
	return Resolve(path), nil
}

// Resolve follows symbolic links, because SQLite stores the log of a database beside the file
// and not beside the link. It returns the absolute path without resolved links if the file
// does not exist.
func Resolve(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	return path
}

// CheckFile returns an [*api.ArgumentError] for field if path does not name a database file.
// ":memory:" would create a file with that name, and a URI would create a file with the whole
// URI as its name.
func CheckFile(field, path string) error {
	if path == ":memory:" || strings.HasPrefix(path, "file:") {
		return &api.ArgumentError{Field: field, Reason: "must be the path of a file, not a URI or :memory:"}
	}
	return nil
}

// Create checks path with [CheckFile] for field and with [CheckPath], and creates the file if
// it does not exist. Only the owner can read and write this file and the files that SQLite
// creates beside it. Create does not open an existing file, because closing it would release
// the locks of another connection of this process.
func Create(field, path string) (created bool, err error) {
	if err := errors.Join(CheckFile(field, path), CheckPath(path)); err != nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, f.Close()
}

// DSN returns the data source name of a file for the driver modernc.org/sqlite.
func DSN(path string, parameters url.Values) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + parameters.Encode()
}

// CheckPath fails with [api.ErrUnsafePath] if the file has several hard links or is a mount
// point itself, such as a single file mounted into a container. The log is beside the path, so
// another path to the same database misses every commit that is only in the log. A path
// without a file is valid.
//
// CheckPath detects mount points on Linux and links on Unix.
func CheckPath(path string) error {
	path = Resolve(path)
	info, err := os.Stat(path)
	switch {
	case isMissing(err), err == nil && !info.Mode().IsRegular(): // SQLite reports a folder itself
		return nil
	case err != nil:
		return err
	}
	switch links := linksOf(info); {
	case links > 1:
		return fmt.Errorf("%w: %s has %d hard links, and each name has its own log: remove the other links", api.ErrUnsafePath, path, links)
	case isMountPoint(path):
		return fmt.Errorf("%w: %s is a mount point, so its log stays outside of the mount: mount the folder", api.ErrUnsafePath, path)
	}
	return nil
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Pool guards a database that a store uses through a connection pool. It is safe for
// concurrent use.
type Pool struct {
	inner sqldb.Pool[*sql.Conn]

	mu    sync.Mutex
	known bool      // guard is set
	guard *Guard    // nil for a database in memory
	kept  *sql.Conn // see keep
}

// NewPool returns a guarded pool for db, which must be a SQLite database. The first [Pool.Do]
// queries the path of the database.
func NewPool(db *sql.DB) *Pool {
	p := &Pool{inner: sqldb.NewPool(db)}
	release := p.inner.Release
	p.inner.Release = func(c *sql.Conn) {
		if !p.keeps(c) {
			release(c)
		}
	}
	return p
}

// Do calls run with a connection, like [sqldb.Pool.Do]. It fails with [api.ErrUnsafePath],
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

// Guard compares the files of an open database with their paths. It is safe for concurrent
// use.
type Guard struct {
	config Config
	log    string

	mu       sync.Mutex
	database filelock.ID
	logID    filelock.ID // zero if there is no log
	failed   error       // the first mismatch, never reset
}

// Config configures a [Guard]. Path is required.
type Config struct {
	// Path is the path of the database, as the program specified it.
	Path string

	// Lock is the lock file beside the database. Nil means no lock file.
	Lock *filelock.Lock

	// Pinned means that the caller keeps one connection open, so SQLite never removes the log.
	Pinned bool

	// Failed is called once, at the first mismatch, with the error of Check. It must not call
	// the guard. Nil means no call.
	Failed func(error)
}

// NewGuard returns a guard for an open database. If Config.Pinned is set, the pinned
// connection must have read from the database before. NewGuard fails with [api.ErrReplaced] if
// this process still has a removed database or log open under the same path.
func NewGuard(c Config) (*Guard, error) {
	g := &Guard{config: c, log: Resolve(c.Path) + "-wal"}
	var err error
	if g.database, err = filelock.IDOf(c.Path); err != nil {
		return nil, missing(err, c.Path)
	}
	if g.logID, err = filelock.IDOf(g.log); err != nil && (c.Pinned || !isMissing(err)) {
		return nil, missing(err, g.log)
	}
	for _, path := range []string{Resolve(c.Path), g.log} {
		if isOpenElsewhere(path, filelock.ID{}) {
			return nil, replaced(path)
		}
	}
	return g, nil
}

// Check fails with [api.ErrReplaced] if a path no longer names the open file. After that, it
// always fails with this error. Other errors come from the file system and can be temporary.
// Check makes two or three stat calls.
//
// A store calls Check before a commit, so it does not write into the log of another database,
// and again before it acknowledges the commit.
func (g *Guard) Check() error { return g.check(g.config.Pinned) }

// check is Check. logging reports whether an open connection has used the log, if the database
// has one.
func (g *Guard) check(logging bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failed != nil {
		return g.failed
	}
	failed, err := g.compare(logging)
	if failed == "" {
		return err
	}
	g.failed = replaced(failed)
	if g.config.Failed != nil {
		g.config.Failed(g.failed)
	}
	return g.failed
}

// Err returns the error of the first Check that failed with [api.ErrReplaced], or nil. It does
// not access the file system.
func (g *Guard) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// OwnsLog reports whether the path of the log still names the open log, or no file.
func (g *Guard) OwnsLog() bool {
	id, err := filelock.IDOf(g.log)
	g.mu.Lock()
	defer g.mu.Unlock()
	return isMissing(err) || err == nil && id == g.logID
}

// compare returns the path that no longer names the open file, or "".
func (g *Guard) compare(logging bool) (failed string, err error) {
	switch id, err := filelock.IDOf(g.config.Path); {
	case isMissing(err), err == nil && id != g.database:
		return g.config.Path, nil
	case err != nil:
		return "", err
	}
	if g.config.Lock != nil {
		switch err := g.config.Lock.Check(); {
		case errors.Is(err, filelock.ErrLost):
			return g.config.Path + ".lock", nil
		case err != nil:
			return "", err
		}
	}
	id, err := filelock.IDOf(g.log)
	switch {
	case err != nil && !isMissing(err):
		return "", err
	case id == g.logID:
		return "", nil
	case g.config.Pinned, logging && err != nil, isOpenElsewhere(g.log, g.logID):
		return g.log, nil
	}
	g.logID = id // the last connection removed the log, or the first one created it
	return "", nil
}

func replaced(path string) error { return fmt.Errorf("%w (%s)", api.ErrReplaced, filepath.Base(path)) }

func missing(err error, path string) error {
	if isMissing(err) {
		return replaced(path)
	}
	return err
}
