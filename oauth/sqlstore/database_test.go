package sqlstore_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokens"
	"github.com/dispensary-go/dispensary/seal"
)

// The addresses of the servers that the tests run on.
const (
	postgresVariable = "DISPENSARY_TEST_POSTGRES" // postgres://postgres@127.0.0.1:5432/test?sslmode=disable
	mysqlVariable    = "DISPENSARY_TEST_MYSQL"    // root@tcp(127.0.0.1:3306)/test
)

// database is where tables are made that end with their test.
type database struct {
	dialect      sqlstore.Dialect
	driver, name string // of [sql.Open]
	prefix       string
}

// eachDatabase plays a test in parallel, on SQLite and on the servers whose addresses are
// set.
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

// newDatabase returns a database with its own table prefix.
func newDatabase(t testing.TB, dialect sqlstore.Dialect) database {
	t.Helper()
	d := database{dialect: dialect, prefix: "t" + strings.ToLower(rand.Text()[:10]) + "_"}
	switch dialect {
	case sqlstore.SQLite:
		d.driver, d.name = "sqlite", sqlstore.SQLiteDSN(filepath.Join(t.TempDir(), "tokens.db"))
		return d
	case sqlstore.PostgreSQL:
		d.driver, d.name = "pgx", address(t, postgresVariable)
	case sqlstore.MySQL:
		d.driver, d.name = "mysql", address(t, mysqlVariable)
	}
	t.Cleanup(func() {
		db, err := sql.Open(d.driver, d.name)
		require.NoError(t, err)
		for _, table := range []string{"oauth_tokens", "oauth_flows"} {
			_, err = db.ExecContext(context.Background(), "DROP TABLE IF EXISTS "+d.prefix+table)
			require.NoError(t, err)
		}
		require.NoError(t, db.Close())
	})
	return d
}

func address(t testing.TB, variable string) string {
	t.Helper()
	name := os.Getenv(variable)
	if name == "" {
		t.Skipf("%s is not set", variable)
	}
	return name
}

func (d database) config() sqlstore.Config {
	return sqlstore.Config{TablePrefix: d.prefix, InsecurePlaintext: true}
}

// open returns its own pool of connections, as a replica has.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.name)
	require.NoError(t, err)
	db.SetMaxOpenConns(4)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// migrated is open with the tables made.
func (d database) migrated(t testing.TB) *sql.DB {
	t.Helper()
	db := d.open(t)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
	return db
}

func (d database) store(t testing.TB, db *sql.DB) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.New(db, d.dialect, d.config())
	require.NoError(t, err)
	return store
}

// sealedOn returns a store as programs have it, with a ring of the given keys, on tables
// that are there.
func sealedOn(db *sql.DB, dialect sqlstore.Dialect, prefix string, keys api.Secret) (tokens.Store, error) {
	ring, err := seal.ParseKeyRing(keys)
	if err != nil {
		return nil, err
	}
	inner, err := sqlstore.New(db, dialect, sqlstore.Config{TablePrefix: prefix})
	if err != nil {
		return nil, err
	}
	return tokens.Sealed(inner, ring)
}

// sealed is sealedOn for a test.
func (d database) sealed(t testing.TB, db *sql.DB, keys api.Secret) tokens.Store {
	t.Helper()
	store, err := sealedOn(db, d.dialect, d.prefix, keys)
	require.NoError(t, err)
	return store
}

// newKeys returns the text of a ring of one key.
func newKeys(t testing.TB) api.Secret {
	t.Helper()
	key, err := seal.GenerateKey("2026")
	require.NoError(t, err)
	return key.Text()
}

// exec changes the database behind the store's back; {tokens} is its table.
func (d database) exec(t testing.TB, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), strings.ReplaceAll(query, "{tokens}", d.prefix+"oauth_tokens"))
	require.NoError(t, err)
}

// count returns the number that a query finds.
func (d database) count(t testing.TB, db *sql.DB, query string) int {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), strings.ReplaceAll(query, "{tokens}", d.prefix+"oauth_tokens")).Scan(&n), fmt.Sprint(d.dialect))
	return n
}

// readOnly makes a connection reject writes.
var readOnly = map[sqlstore.Dialect]string{
	sqlstore.SQLite: "PRAGMA query_only = on", sqlstore.PostgreSQL: "SET default_transaction_read_only = on",
	sqlstore.MySQL: "SET SESSION TRANSACTION READ ONLY",
}
