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
	// ErrNotCatalog: the file is no SQLite database, cannot be read, or is that of another
	// program.
	ErrNotCatalog = errors.New("catalogsync/sqlstore: the file is no catalog")
)

// OpenSQLite opens a database file for a [Store], with the driver modernc.org/sqlite, which
// the program imports and whose name is "sqlite", unless it is registered under another: with
// a write-ahead log, so that readers do not wait for writers. All processes that use the file
// have to be on one machine.
//
// A commit is not waited for until it is on the disk (synchronous=NORMAL). A process that is
// killed loses nothing; a power cut may take the last pages of a walk, and never more than
// whole transactions: the next sync reads them again.
//
// A file that is not there is made, to be read and written by its owner only (mode 0600), as
// are those that SQLite puts beside it. One that is there keeps its mode, and has to be
// empty or to have the tables of a store, whatever else there is: otherwise the error is
// [ErrNotCatalog], and the file is left as it is. A file that has several hard links, or is
// mounted alone, fails with [api.ErrUnsafePath].
//
// The pool that is returned is for the store, and not for the program's own writes: its
// connections wait for other writers for a moment only, and the store does the rest of the
// waiting. A program that has its own tables in the file opens it a second time for these,
// with a busy_timeout of some seconds and _txlock=immediate.
//
// On Linux call sqlite.OFDLocking(true) of modernc.org/sqlite before the first connection,
// unless the program imports package sqlinbox. Without it, a program that reads its own
// database file drops the locks of SQLite when it closes the file.
//
//	db, err := sqlstore.OpenSQLite(ctx, "sqlite", "catalog.db")
//
// It fails with an [*api.ArgumentError] if path is a URI or ":memory:".
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

// checkFile looks at a file without changing it. One that has no log beside it is not being
// written: SQLite is asked to read it without the files that it would put there.
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
		return fmt.Errorf("%w: %s is the database of another program", ErrNotCatalog, path)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
