package sqlstore_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it would log every connection that a test closes
	os.Exit(m.Run())
}

// database is a database, or a schema of PostgreSQL, for one test.
type database struct {
	dialect      sqlstore.Dialect
	driver, name string // arguments of [sql.Open]
}

// eachDatabase runs a test in parallel on SQLite and on each configured server.
func eachDatabase(t *testing.T, play func(t *testing.T, d database)) {
	t.Helper()
	t.Parallel()
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL, sqlstore.MySQL} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			play(t, newDatabase(t, dialect))
		})
	}
}

// drivers contains the driver names of [sql.Open].
var drivers = map[sqlstore.Dialect]string{sqlstore.SQLite: "sqlite", sqlstore.PostgreSQL: "pgx", sqlstore.MySQL: "mysql"}

func newDatabase(t testing.TB, dialect sqlstore.Dialect) database {
	t.Helper()
	if dialect == sqlstore.SQLite {
		return database{dialect, "sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "tokens.db"))}
	}
	return database{dialect, drivers[dialect], sqltest.Database(t, drivers[dialect])}
}

// open opens a separate connection pool, as a replica does.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.name)
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// migrated is open plus the tables.
func (d database) migrated(t testing.TB) *sql.DB {
	t.Helper()
	db := d.open(t)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect))
	return db
}

func (d database) store(t testing.TB, db *sql.DB) tokenstore.Store {
	t.Helper()
	return sqlstore.New(db, d.dialect)
}

// sealed returns an encrypted store with a ring of the given keys, as programs use it. The
// tables must exist.
func (d database) sealed(t testing.TB, db *sql.DB, keys api.Secret) tokenstore.Store {
	t.Helper()
	ring, err := seal.ParseKeyRing(keys)
	require.NoError(t, err)
	store, err := tokenstore.Sealed(d.store(t, db), ring)
	require.NoError(t, err)
	return store
}

// newKeys returns the text of a ring with one key.
func newKeys(t testing.TB) api.Secret {
	t.Helper()
	key, err := seal.GenerateKey("2026")
	require.NoError(t, err)
	return key.Text()
}

// exec changes the database without the store.
func (d database) exec(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	require.NoError(t, err)
}

// count returns the number in the result of a query.
func (d database) count(t testing.TB, db *sql.DB, query string) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n), fmt.Sprint(d.dialect))
	return n
}
