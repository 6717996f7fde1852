package sqlstore

import (
	"context"
	"database/sql"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// SQLiteDSN lets processes of tests open a file by its name.
var SQLiteDSN = sqliteDSN

// Dialect is that of a database of a test.
type Dialect = dialect

const (
	PostgreSQL = postgreSQL
	MySQL      = mySQL
	SQLite     = sqlite
)

// New returns a store that is not encrypted, whose rows tests can compare.
func New(db *sql.DB, d Dialect) tokenstore.Store { return newStore(db, d) }

// Migrate creates the tables.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error { return d.schema().Create(ctx, db) }
