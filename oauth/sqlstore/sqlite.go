package sqlstore

import (
	"database/sql"
	"fmt"
	"net/url"

	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// OpenSQLite opens a database file for a [Store], with the driver
// modernc.org/sqlite, which the program imports and whose name is "sqlite", unless it
// is registered under another: with a write-ahead log, so that readers do not wait
// for writers; with every commit on the disk before it counts, so that no token is
// lost to a power cut. All processes that use the file have to be on one machine.
//
// A file that is not there is made, to be read and written by its owner only (mode
// 0600), as are the files that SQLite puts beside it: secrets are sealed, the ids of
// users and of their accounts are not. A file that is there keeps its mode.
//
// The pool that is returned is for the store, and not for the program's own writes:
// its connections wait for other writers for a moment only (busy_timeout), because
// the driver does not look at the caller's context meanwhile, and the store does the
// rest of the waiting. A program that has its own tables in the file opens it a
// second time for these, with a busy_timeout of some seconds and _txlock=immediate:
// it takes both, or its own transaction fails with SQLITE_BUSY as soon as the
// store, or another program, writes at the same time.
//
//	db, err := sqlstore.OpenSQLite("sqlite", "tokens.db")
//
// On Linux call sqlite.OFDLocking(true) of modernc.org/sqlite before the first connection,
// unless the program imports package sqlinbox. Without it, a program that reads its own
// database file drops the locks of SQLite when it closes the file, and sqlite3 in a shell
// can then remove the log. The store notices that and fails with [api.ErrReplaced].
//
// Errors: an [*api.ArgumentError] if path is a URI or ":memory:", which names a separate
// database for each connection; [api.ErrUnsafePath]; those of the file system and of [sql.Open].
// OpenSQLite sends no statement to the database.
func OpenSQLite(driver, path string) (*sql.DB, error) {
	if _, err := sqlitefile.Create("sqlstore.OpenSQLite path", path); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	db, err := sql.Open(driver, sqliteDSN(path))
	if err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	return db, nil
}

func sqliteDSN(path string) string {
	return sqlitefile.DSN(path, url.Values{
		"_pragma": {"busy_timeout(50)", "journal_mode(wal)", "synchronous(full)"}, "_txlock": {"immediate"},
	})
}
