package sqlstore

import (
	"net/url"
	"path/filepath"
	"strings"
)

// SQLiteDSN returns the data source name of a database file for the driver
// modernc.org/sqlite: with a write-ahead log, so that readers do not wait for
// writers; with every commit on the disk before it counts, so that no token is
// lost to a power cut. All processes that use the file have to be on one machine.
//
// The driver waits for other writers for a moment only, because it does not look
// at the caller's context meanwhile; the store does the rest of the waiting.
//
//	db, err := sql.Open("sqlite", sqlstore.SQLiteDSN("tokens.db"))
func SQLiteDSN(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + strings.Join([]string{
		"_pragma=busy_timeout(50)", "_pragma=journal_mode(wal)", "_pragma=synchronous(full)", "_txlock=immediate",
	}, "&")
}
