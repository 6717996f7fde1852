package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
)

// database is a file, or a schema of PostgreSQL, that ends with its test.
type database struct {
	dialect sqlstore.Dialect
	name    string // the path of the file, or the server's address
}

// eachDatabase plays a test in parallel, on SQLite and on the server whose address is set.
func eachDatabase(t *testing.T, play func(t *testing.T, d database)) {
	t.Helper()
	t.Parallel()
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			play(t, newDatabase(t, dialect))
		})
	}
}

func newDatabase(t testing.TB, dialect sqlstore.Dialect) database {
	t.Helper()
	if dialect == sqlstore.SQLite {
		return database{dialect, filepath.Join(t.TempDir(), "catalog.db")}
	}
	return database{dialect, postgrestest.Schema(t)}
}

// open returns its own pool of connections, as a process has.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := d.connect(t.Context())
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (d database) connect(ctx context.Context) (*sql.DB, error) {
	if d.dialect == sqlstore.SQLite {
		return sqlstore.OpenSQLite(ctx, "sqlite", d.name)
	}
	return sql.Open("pgx", d.name)
}

// migrated is open with the tables made.
func (d database) migrated(t testing.TB) *sql.DB {
	t.Helper()
	db := d.open(t)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect))
	return db
}

func (d database) store(t testing.TB, db *sql.DB) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.New(db, d.dialect)
	require.NoError(t, err)
	return store
}

// How long a test waits for another process, and how often it looks.
const (
	patience = time.Minute
	moment   = 10 * time.Millisecond
)

// start is a time of the tests.
var start = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
