package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/dispensary-go/dispensary/internal/contention"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// Errors of a SQLite file.
var (
	// ErrNotCatalog: the file is not a SQLite database, cannot be read, or belongs to another
	// program.
	ErrNotCatalog = errors.New("catalogsync/sqlstore: the file is not a catalog")
)

// OpenSQLite opens or creates a database file for a [Store]:
//
//	db, err := sqlstore.OpenSQLite(ctx, "sqlite", "catalog.db")
//
// It uses modernc.org/sqlite, which your program must import. The driver is "sqlite", unless
// your program registers it under another name. The file gets a write-ahead log, so readers do
// not wait for writers. All processes with the file open must run on one machine.
//
// A commit does not wait for the disk (synchronous=NORMAL). A killed process loses nothing. A
// power failure may lose the last pages of a walk, but only whole transactions. The next sync
// reads these pages again.
//
// # Files
//
// A new file, and the -wal and -shm files beside it, can be read and written only by their
// owner (mode 0600). An existing file keeps its mode. It must be empty or contain the tables
// of a store, and it may also contain other tables. Otherwise OpenSQLite fails with
// [ErrNotCatalog] and does not change the file.
//
// # Your own tables
//
// Use the returned pool only for the store. Its connections wait 50 ms for other writers, and
// the store then retries. For your own tables in the same file, open the file a second time,
// with a busy_timeout of some seconds and _txlock=immediate.
//
// On Linux, call sqlite.OFDLocking(true) of modernc.org/sqlite before the first connection,
// unless your program imports package sqlinbox. Without it, a program that reads its own
// database file drops the locks of SQLite when it closes the file.
//
// Errors:
//
//   - [*api.ArgumentError]: path is a URI or ":memory:".
//   - [api.ErrUnsafePath]: the file has several hard links or is itself a mount point.
//   - [ErrNotCatalog]: see above.
//   - Errors of the file system or the driver.
func OpenSQLite(ctx context.Context, driver, path string) (*sql.DB, error) {
	created, err := sqlitefile.Create("sqlstore.OpenSQLite path", path)
	if err == nil && !created {
		err = checkFile(ctx, driver, sqlitefile.Resolve(path))
	}
	if errors.Is(err, ErrNotCatalog) {
		return nil, err
	}
	if err != nil {
		return nil, failed(ctx, "open", err)
	}
	db, err := sql.Open(driver, sqlitefile.DSN(path, url.Values{
		"_pragma": {"busy_timeout(50)", "journal_mode(wal)", "synchronous(normal)", "wal_autocheckpoint(4000)"}, "_txlock": {"immediate"},
	}))
	if err != nil {
		return nil, failed(ctx, "open", err)
	}
	return db, nil
}

// checkFile checks a file without changing it. If the file has no log beside it, no process is
// writing to it, so it is opened as immutable: SQLite then creates no files.
func checkFile(ctx context.Context, driver, path string) (err error) {
	parameters := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(50)"}}
	if !exists(path+"-wal") && !exists(path+"-journal") {
		parameters.Set("immutable", "1")
	}
	db, err := sql.Open(driver, sqlitefile.DSN(path, parameters))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, db.Close()) }()
	var application, tables, own int
	err = contention.Retry(ctx, func() error {
		return db.QueryRowContext(ctx, `SELECT application_id,
			(SELECT count(*) FROM sqlite_master),
			(SELECT count(*) FROM sqlite_master WHERE name LIKE '%catalog\_state' ESCAPE '\')
			FROM pragma_application_id`).Scan(&application, &tables, &own)
	})
	switch {
	case err != nil && (ctx.Err() != nil || contention.Is(err)):
		return err
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrNotCatalog, path, err)
	case own == 0 && (tables > 0 || application != 0):
		return fmt.Errorf("%w: %s belongs to another program", ErrNotCatalog, path)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
