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

// DSN returns the data source name of a file that your program shares with its inbox (see
// [New]). It is for the driver modernc.org/sqlite. If the file does not exist, DSN creates it,
// readable for its owner only, like the files that SQLite creates beside it.
//
//	dsn, err := sqlinbox.DSN("program.db")
//	…
//	db, err := sql.Open("sqlite", dsn)
//
// With this name, your transactions take the write lock when they begin, and wait up to 10
// seconds for the transactions of the inbox. Otherwise they would fail with SQLITE_BUSY,
// because SQLite has one writer. A name from sqlstore.OpenSQLite only waits for a moment, so
// do not write with it. Keep transactions short: accepts wait for them, and fail after
// [webhook.HandlerConfig.AcceptTimeout].
//
// The error is an [*api.ArgumentError] if path is a URI or ":memory:".
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

// makePrivate creates the file if it does not exist, because SQLite would create it, and the
// files beside it, readable for everyone. It does not open an existing file, because closing
// it would end the POSIX locks of this process.
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
