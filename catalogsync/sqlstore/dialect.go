package sqlstore

import (
	"errors"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// Dialect is the SQL that a database speaks.
type Dialect string

// The dialects that the package speaks. See the README for the versions that it is tested
// with.
const (
	PostgreSQL Dialect = "postgresql" // 12 and later
	SQLite     Dialect = "sqlite"     // 3.38 and later
)

// Errors of a SQLite file.
var (
	// ErrNotCatalog: the file is no SQLite database, cannot be read, or is that of another
	// program.
	ErrNotCatalog = errors.New("catalogsync/sqlstore: the file is no catalog")

	// ErrReplaced: the SQLite database or its log was moved, removed or replaced while it was
	// open, so that the next start would not find what is written now. Every method of the
	// store fails with it from then on. Restart the process.
	ErrReplaced = sqlitefile.ErrReplaced

	// ErrUnsafePath: the SQLite database has several hard links, or is mounted alone, as with
	// "docker run -v ./catalog.db:/data/catalog.db", so that its log would stay behind. Mount the
	// folder.
	ErrUnsafePath = sqlitefile.ErrUnsafePath
)

func (d Dialect) validate() error {
	if d != PostgreSQL && d != SQLite {
		return &api.ArgumentError{Field: "sqlstore.Dialect", Reason: "is neither PostgreSQL nor SQLite"}
	}
	return nil
}
