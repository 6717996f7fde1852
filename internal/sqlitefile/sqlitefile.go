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
	"syscall"

	"github.com/dispensary-go/dispensary/api"
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
