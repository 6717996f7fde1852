package sqlitefile

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/fileid"
	"github.com/dispensary-go/dispensary/internal/filelock"
)

// Guard compares the files of an open database with their paths. It is safe for concurrent
// use.
type Guard struct {
	config Config
	log    string

	mu       sync.Mutex
	database fileid.ID
	logID    fileid.ID // zero if there is no log
	failed   error     // the first mismatch, never reset
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
	if g.database, err = fileid.Of(c.Path); err != nil {
		return nil, missing(err, c.Path)
	}
	if g.logID, err = fileid.Of(g.log); err != nil && (c.Pinned || !isMissing(err)) {
		return nil, missing(err, g.log)
	}
	for _, path := range []string{Resolve(c.Path), g.log} {
		if isOpenElsewhere(path, fileid.ID{}) {
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
	id, err := fileid.Of(g.log)
	g.mu.Lock()
	defer g.mu.Unlock()
	return isMissing(err) || err == nil && id == g.logID
}

// compare returns the path that no longer names the open file, or "".
func (g *Guard) compare(logging bool) (failed string, err error) {
	switch id, err := fileid.Of(g.config.Path); {
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
	id, err := fileid.Of(g.log)
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
