package sqlstore

import (
	"database/sql"
	"fmt"
	"net/url"

	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// OpenSQLite opens a SQLite file for [Open]. driver is the registered name of the driver
// modernc.org/sqlite, normally "sqlite". Your program imports that driver.
//
//	db, err := sqlstore.OpenSQLite("sqlite", "tokens.db")
//
// The file uses a write-ahead log, so readers do not wait for writers. Each commit is on the
// disk before it counts, so a power failure loses no token. All processes that use the file
// must run on one machine.
//
// OpenSQLite creates a missing file with mode 0600: only its owner can read and write it. The
// files that SQLite creates beside it get the same mode. Secrets are encrypted, but the IDs of
// users and of their accounts are not. An existing file keeps its mode.
//
// Use the returned pool only for the store. Its connections wait for other writers only
// briefly (busy_timeout), because the driver ignores the caller's context during that time.
// The store does the rest of the waiting. For your own tables in the same file, open a second
// pool with a busy_timeout of a few seconds and _txlock=immediate. Without both, your
// transactions fail with SQLITE_BUSY as soon as the store or another program writes at the
// same time.
//
// On Linux, call sqlite.OFDLocking(true) of modernc.org/sqlite before the first connection,
// unless your program imports package sqlinbox. Otherwise, if your program reads its own
// database file, closing that file releases the locks of SQLite. The sqlite3 shell can then
// remove the log. The store detects this and fails with [api.ErrReplaced].
//
// Errors:
//
//   - [*api.ArgumentError]: path is a URI, or ":memory:", which would open a separate
//     database for each connection
//   - [api.ErrUnsafePath]: the file has several hard links or is mounted on its own
//   - errors of the file system and of [sql.Open]
//
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
