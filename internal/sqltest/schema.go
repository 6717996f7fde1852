// Package sqltest is shared by the tests of stores on SQL.
package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/postgrestest"
	"github.com/dispensary-go/dispensary/internal/sqlschema"
)

// mysqlVariable holds the address of a server, root@tcp(127.0.0.1:3306)/test for example.
const mysqlVariable = "DISPENSARY_TEST_MYSQL"

var dialects = map[string]string{"pgx": sqlschema.PostgreSQL, "mysql": "mysql", "sqlite": sqlschema.SQLite}

// Store is a store whose tables are tested.
type Store struct {
	// Driver is "pgx", "mysql" or "sqlite", which the program registers.
	Driver string

	// Script is the SQL of the tables.
	Script string

	// Create creates the tables in the database with this data source name, which db has open.
	Create func(ctx context.Context, db *sql.DB, name string) error
}

// RunSchema tests how a store creates its tables.
func RunSchema(t *testing.T, s Store) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, s Store){
		"at once":     createAtOnce,
		"limited":     openLimited,
		"by hand":     createByHand,
		"interrupted": createRest,
		"foreign":     rejectForeign,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// createAtOnce starts several processes on an empty database.
func createAtOnce(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	if s.Driver == "pgx" {
		name += "&default_transaction_isolation=serializable"
	}
	var processes sync.WaitGroup
	for range 6 {
		db := open(t, s.Driver, name)
		processes.Go(func() {
			for range 2 {
				assert.NoError(t, s.Create(t.Context(), db, name))
			}
		})
	}
	processes.Wait()
	require.NoError(t, s.check(t, name))
}

// openLimited opens the tables as a role that must not create any.
func openLimited(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	limited := Limited(t, s.Driver, name)
	db := open(t, s.Driver, limited)
	require.Error(t, s.Create(t.Context(), db, limited), "the role cannot create tables")
	var e *sqlschema.Error
	require.ErrorAs(t, s.check(t, name), &e)
	require.NoError(t, s.Create(t.Context(), open(t, s.Driver, name), name))
	require.NoError(t, s.Create(t.Context(), db, limited))
}

// createByHand applies the script with another tool.
func createByHand(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	for statement := range strings.SplitSeq(s.Script, ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	}
	limited := Limited(t, s.Driver, name)
	require.NoError(t, s.Create(t.Context(), open(t, s.Driver, limited), limited))
}

// createRest creates the tables that an interrupted process did not create.
func createRest(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	require.NoError(t, s.Create(t.Context(), db, name))
	tables := s.tables()
	_, err := db.ExecContext(t.Context(), "DROP TABLE "+tables[len(tables)-1])
	require.NoError(t, err)
	require.NoError(t, s.Create(t.Context(), db, name))
	require.NoError(t, s.check(t, name))
}

// rejectForeign finds a table of another program in place of the last one.
func rejectForeign(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	tables := s.tables()
	last := tables[len(tables)-1]
	_, err := db.ExecContext(t.Context(), "CREATE TABLE "+last+" (mine integer)")
	require.NoError(t, err)
	var e *sqlschema.Error
	require.ErrorAs(t, s.Create(t.Context(), db, name), &e)
	assert.Equal(t, last, e.Table)
	assert.NotEmpty(t, e.Column)
	assert.ErrorContains(t, e, "table "+last+" has no column "+e.Column)
	_, err = db.ExecContext(t.Context(), "DROP TABLE "+last)
	require.NoError(t, err)
	require.ErrorAs(t, s.check(t, name), &e)
	assert.Equal(t, sqlschema.Error{Table: tables[0]}, *e, "it created no table")
}

// tables returns the names of the tables in their order.
func (s Store) tables() (names []string) {
	for _, match := range regexp.MustCompile(`TABLE IF NOT EXISTS (\S+)`).FindAllStringSubmatch(s.Script, -1) {
		names = append(names, match[1])
	}
	return names
}

// check compares a database with the script.
func (s Store) check(t *testing.T, name string) error {
	t.Helper()
	return sqlschema.Schema{Dialect: dialects[s.Driver], Script: s.Script}.Check(t.Context(), open(t, s.Driver, name))
}

func open(t testing.TB, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// Database returns the data source name of an empty database, which is deleted with the test. It
// skips the test if there is no server.
func Database(t testing.TB, driver string) string {
	t.Helper()
	switch driver {
	case "pgx":
		return postgrestest.Schema(t)
	case "sqlite":
		path := filepath.ToSlash(filepath.Join(t.TempDir(), "test.db"))
		return "file:" + (&url.URL{Path: path}).EscapedPath() + "?_pragma=busy_timeout(50)&_pragma=journal_mode(wal)&_txlock=immediate"
	}
	address := os.Getenv(mysqlVariable)
	if address == "" {
		t.Skipf("%s is not set", mysqlVariable)
	}
	own := "test_" + strings.ToLower(rand.Text()[:10])
	server := open(t, driver, address)
	_, err := server.ExecContext(t.Context(), "CREATE DATABASE "+own)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := server.ExecContext(context.Background(), "DROP DATABASE "+own)
		assert.NoError(t, err)
	})
	return address[:strings.LastIndex(address, "/")+1] + own
}

// Limited returns the data source name of a database of [Database] for a role that reads and
// writes rows, but must not create tables. In SQLite it must not write at all.
func Limited(t *testing.T, driver, name string) string {
	t.Helper()
	role := "role_" + strings.ToLower(rand.Text()[:10])
	switch driver {
	case "pgx":
		u, err := url.Parse(name)
		require.NoError(t, err)
		schema := u.Query().Get("search_path")
		limit(t, driver, name, []string{
			"CREATE ROLE " + role,
			"GRANT USAGE ON SCHEMA " + schema + " TO " + role,
			"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + schema + " TO " + role,
			"ALTER DEFAULT PRIVILEGES IN SCHEMA " + schema + " GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO " + role,
		}, []string{"DROP OWNED BY " + role, "DROP ROLE " + role})
		return name + "&role=" + role
	case "mysql":
		limit(t, driver, name, []string{
			"CREATE USER " + role + "@'%'",
			"GRANT SELECT, INSERT, UPDATE, DELETE ON " + name[strings.LastIndex(name, "/")+1:] + ".* TO " + role + "@'%'",
		}, []string{"DROP USER " + role + "@'%'"})
		return role + name[strings.LastIndex(name, "@"):]
	}
	return name + "&_pragma=query_only(1)"
}

// limit runs statements now, and others at the end of the test.
func limit(t *testing.T, driver, name string, now, end []string) {
	t.Helper()
	db := open(t, driver, name)
	for _, statement := range now {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, statement := range end {
			_, err := db.ExecContext(context.Background(), statement)
			assert.NoError(t, err)
		}
	})
}
