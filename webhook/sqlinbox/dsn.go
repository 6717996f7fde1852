package sqlinbox

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// DSN returns the data source name, for the driver modernc.org/sqlite, of a file that
// the program shares with its inbox, see [New]. If there is no file, it creates one
// that only its owner can read, as are the files that SQLite puts beside it.
//
//	dsn, err := sqlinbox.DSN("program.db")
//	…
//	db, err := sql.Open("sqlite", dsn)
//
// Transactions of the program's own wait for up to ten seconds for those of the inbox,
// and take the lock for writing when they begin. A name without that is a trap: SQLite
// has one writer, and a transaction that finds it busy fails at once with SQLITE_BUSY,
// as does one that has begun with reading whenever it waits. The names of the stores
// (those of sqlstore.OpenSQLite) let the driver wait for a moment only, as
// these stores do the rest of the waiting, and are not for writes of the program's
// own. These should be short all the same: accepts wait for them, and are refused
// after [webhook.HandlerConfig.AcceptTimeout].
//
// It fails with an [*api.ArgumentError] if path is a URI or ":memory:".
func DSN(path string) (string, error) {
	if err := sqlitefile.CheckFile("sqlinbox.DSN path", path); err != nil {
		return "", err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("sqlinbox: %w", err)
	}
	if err := sqlitefile.CheckPath(path); err != nil {
		return "", fmt.Errorf("sqlinbox: %w", err)
	}
	if err := makePrivate(path); err != nil {
		return "", fmt.Errorf("sqlinbox: %w", err)
	}
	name := url.URL{
		Scheme: "file", Path: filepath.ToSlash(path),
		RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate",
	}
	return name.String(), nil
}

// makePrivate makes the file, if there is none: SQLite would make it readable for
// everyone, and gives the files beside the database its rights. A file that is there
// is not opened: to close it again would end the locks that this process has on it,
// and another one could write to what is being written, unless the locks are open file
// description locks.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
