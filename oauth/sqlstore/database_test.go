package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
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

// poolOf opens the database through a pgxpool, which has its own connections below those of
// database/sql.
func (d database) poolOf(t testing.TB) *sql.DB {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.name)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// openIdle opens the database with room for 3 idle connections.
func (d database) openIdle(t testing.TB) *sql.DB {
	t.Helper()
	db := d.open(t)
	db.SetMaxIdleConns(3)
	return db
}

func TestWritesReplaceReadOnlyConnections(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		dialect sqlstore.Dialect
		open    func(database, testing.TB) *sql.DB
		idle    int
	}{
		"postgresql": {sqlstore.PostgreSQL, database.openIdle, 3},
		"mysql":      {sqlstore.MySQL, database.openIdle, 3},
		"pgxpool":    {sqlstore.PostgreSQL, database.poolOf, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, of.dialect)
			d.migrated(t)
			db := of.open(d, t)
			store, ctx := d.store(t, db), t.Context()
			record := save(t, store)
			due := tokenstore.Due{Environment: usSandbox, Before: time.Now().AddDate(1, 0, 0), Limit: 5, Owner: "a", TTL: time.Minute}
			lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: "a"}
			for _, write := range []struct {
				name string
				run  func() error
			}{
				{"check", func() error { return store.CheckWrite(ctx) }},
				{"claim", func() error { _, err := store.ClaimDue(ctx, due); return err }},
				{"lease", func() error { _, err := store.Lease(ctx, lease, time.Minute); return err }},
				{"commit", func() error { _, err := store.Commit(ctx, lease, token(api.NewSecret("next"))); return err }},
				{"save", func() (err error) { record, err = store.Save(ctx, user17, token(api.NewSecret("other"))); return err }},
				{"delete", func() error { return store.DeleteVersion(ctx, user17, record.Version) }},
			} {
				sqltest.Demote(t, d.driver, db, of.idle)
				require.NoError(t, write.run(), write.name)
			}
			assert.Zero(t, db.Stats().InUse)
		})
	}
}

func TestMigrationCanRepeat(t *testing.T) {
	t.Parallel()
	for dialect, driver := range drivers {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			script, err := sqlstore.Schema(string(dialect))
			require.NoError(t, err)
			sqltest.RunSchema(t, sqltest.Store{
				Driver: driver, Script: script,
				Create: func(ctx context.Context, db *sql.DB, _ string) error {
					return sqlstore.Migrate(ctx, db, dialect)
				},
			})
		})
	}
}

func TestOpenChecksArguments(t *testing.T) {
	t.Parallel()
	_, err := sqlstore.Open(t.Context(), nil, seal.InsecurePlaintext{})
	require.ErrorIs(t, err, api.ErrArgument)
	_, err = sqlstore.Open(t.Context(), newDatabase(t, sqlstore.SQLite).open(t), nil)
	require.ErrorIs(t, err, api.ErrArgument)
	_, err = sqlstore.Schema("oracle")
	require.ErrorIs(t, err, api.ErrArgument)
}

func TestOpenCreatesTables(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db, ring := d.open(t), seal.InsecurePlaintext{}
		_, err := sqlstore.OpenExisting(t.Context(), db, ring)
		var missing *api.SchemaError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, api.SchemaError{Table: "dispensary_oauth_schema", Want: 1, Migrate: "sqlstore.Open"}, *missing)
		_, err = sqlstore.OpenExisting(t.Context(), db, ring)
		require.ErrorAs(t, err, &missing, "OpenExisting creates no table")
		for _, open := range []func(context.Context, *sql.DB, seal.AEAD) (tokenstore.Store, error){sqlstore.Open, sqlstore.Open, sqlstore.OpenExisting} {
			store, err := open(t.Context(), db, ring)
			require.NoError(t, err)
			save(t, store)
		}
	})
}

func TestOpenReportsDatabaseError(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, sqlstore.SQLite).open(t)
	require.NoError(t, db.Close())
	_, err := sqlstore.Open(t.Context(), db, seal.InsecurePlaintext{})
	require.ErrorContains(t, err, "sqlstore: detect the database: sql: database is closed")
}
