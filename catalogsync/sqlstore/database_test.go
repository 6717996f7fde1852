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

// database is a SQLite file or a PostgreSQL schema that is removed after its test.
type database struct {
	driver string
	name   string // the path of the file, or the URL of the server
}

// drivers are the database drivers under test.
var drivers = []string{"sqlite", "pgx"}

func newDatabase(t testing.TB, driver string) database {
	t.Helper()
	if driver == "sqlite" {
		return database{driver, filepath.Join(t.TempDir(), "catalog.db")}
	}
	return database{driver, postgrestest.Schema(t)}
}

// open returns a new connection pool, as another process would open one.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := d.connect(t.Context())
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (d database) connect(ctx context.Context) (*sql.DB, error) {
	if d.driver == "sqlite" {
		return sqlstore.OpenSQLite(ctx, d.driver, d.name)
	}
	return sql.Open(d.driver, d.name)
}

func (d database) store(t testing.TB, db *sql.DB) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), db)
	require.NoError(t, err)
	return store
}

// The longest wait for another process, and the interval between checks.
const (
	patience = time.Minute
	moment   = 10 * time.Millisecond
)

// start is the time used by the tests.
var start = time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
