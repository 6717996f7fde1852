package sqlstore

import (
	"context"
	"database/sql"

	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// SQLiteDSN lets test processes open a file by its name.
var SQLiteDSN = sqliteDSN

// Dialect is the dialect of a test database.
type Dialect = dialect

const (
	PostgreSQL = postgreSQL
	MySQL      = mySQL
	SQLite     = sqlite
)

// New returns a store without encryption, so that tests can compare its rows.
func New(db *sql.DB, d Dialect) tokenstore.Store { return newStore(db, d) }

// Migrate creates the tables.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error { return d.schema().Create(ctx, db) }
