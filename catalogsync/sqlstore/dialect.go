package sqlstore

import (
	"errors"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
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

// Config sets up a store; it is the same for [Migrate] and [New].
type Config struct {
	// TablePrefix begins the names of the tables; empty means "dispensary_". Lower case
	// letters, digits and underscores, 40 at most, beginning with a letter. In PostgreSQL
	// set the search path to use another schema.
	TablePrefix string
}

func (c Config) validate(dialect Dialect) error {
	if dialect != PostgreSQL && dialect != SQLite {
		return &api.ArgumentError{Field: "sqlstore.Dialect", Reason: "is neither PostgreSQL nor SQLite"}
	}
	return sqlschema.CheckPrefix(c.prefix())
}

// prefix begins the names of everything that is the store's.
func (c Config) prefix() string {
	if c.TablePrefix == "" {
		return "dispensary_catalog_"
	}
	return c.TablePrefix + "catalog_"
}

// name fills the names of the tables in: {products} is dispensary_catalog_products.
func (c Config) name(query string) string {
	return strings.NewReplacer("{", c.prefix(), "}", "").Replace(query)
}
