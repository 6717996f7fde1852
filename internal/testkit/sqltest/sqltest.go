// Package sqltest creates databases for the tests of SQL stores, and tests how a store creates
// its tables.
package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqldb"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
)

// mysqlVariable is the environment variable with the data source name of a MySQL server, such
// as root@tcp(127.0.0.1:3306)/test.
const mysqlVariable = "DISPENSARY_TEST_MYSQL"

func open(t testing.TB, driver, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, name)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

// Database creates an empty database, deletes it after the test and returns its data source
// name. It skips the test if the environment names no server. Driver is "pgx", "mysql" or
// "sqlite".
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

// Limited returns the data source name of a database of [Database] for a role that may read and
// write rows, but not create tables. In SQLite the role cannot write at all.
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

// limit runs the statements now immediately, and the statements end after the test.
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

// Demote makes n connections of a pool read-only, like connections opened to a server before it
// became the primary.
func Demote(t testing.TB, driver string, db *sql.DB, n int) {
	t.Helper()
	readOnly := map[string]string{"pgx": "SET default_transaction_read_only = on", "mysql": "SET SESSION TRANSACTION READ ONLY"}
	var demoted []*sql.Conn
	for range n {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), readOnly[driver])
		require.NoError(t, err)
		demoted = append(demoted, conn)
	}
	for _, conn := range demoted {
		require.NoError(t, conn.Close())
	}
}

var dialects = map[string]string{"pgx": sqldb.PostgreSQL, "mysql": "mysql", "sqlite": sqldb.SQLite}

// Store describes the tables of the store under test.
type Store struct {
	// Driver is "pgx", "mysql" or "sqlite". The caller registers it.
	Driver string

	// Script is the SQL of the tables.
	Script string

	// ScriptIn returns Script with the name of the schema before all names. Nil means Script.
	ScriptIn func(schema string) string

	// Before applies the SQL that must precede Script. Nil means none.
	Before func(t *testing.T, db *sql.DB)

	// Create creates the tables in the database with data source name name, through db.
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
		"newer":       respectNewer,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// createAtOnce creates the tables from six concurrent processes on an empty database.
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

// openLimited opens the tables with a role that may not create tables.
func openLimited(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	limited := Limited(t, s.Driver, name)
	db := open(t, s.Driver, limited)
	require.Error(t, s.Create(t.Context(), db, limited), "the role cannot create tables")
	var e *api.SchemaError
	require.ErrorAs(t, s.check(t, name), &e)
	require.NoError(t, s.Create(t.Context(), open(t, s.Driver, name), name))
	require.NoError(t, s.Create(t.Context(), db, limited))
}

// createByHand applies the script with another tool.
func createByHand(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	if s.Before != nil {
		s.Before(t, db)
	}
	separator := ";"
	if s.Driver == "pgx" {
		separator = "\x00" // pgx runs the whole script in one call
	}
	for statement := range strings.SplitSeq(s.script(t, db), separator) {
		if statement = strings.TrimSpace(statement); statement != "" {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
		}
	}
	limited := Limited(t, s.Driver, name)
	require.NoError(t, s.Create(t.Context(), open(t, s.Driver, limited), limited))
}

// createRest creates the tables left over by an interrupted process, which has stored no version.
func createRest(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	require.NoError(t, s.Create(t.Context(), db, name))
	tables := s.tables()
	for _, statement := range []string{"DROP TABLE " + tables[len(tables)-1], "DELETE FROM " + tables[0]} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	var e *api.SchemaError
	require.ErrorAs(t, s.check(t, name), &e)
	require.NoError(t, s.Create(t.Context(), db, name))
	require.NoError(t, s.check(t, name))
	_, err := db.ExecContext(t.Context(), "SELECT * FROM "+tables[len(tables)-1])
	require.NoError(t, err)
}

// rejectForeign puts a table of another program in place of the last one.
func rejectForeign(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	tables := s.tables()
	last := tables[len(tables)-1]
	_, err := db.ExecContext(t.Context(), "CREATE TABLE "+last+" (mine integer)")
	require.NoError(t, err)
	var e *api.SchemaError
	require.ErrorAs(t, s.Create(t.Context(), db, name), &e)
	assert.Equal(t, last, e.Table[strings.LastIndex(e.Table, ".")+1:]) // without the schema
	require.ErrorContains(t, e, "another program created table "+e.Table)
	_, err = db.ExecContext(t.Context(), "DROP TABLE "+last)
	require.NoError(t, err)
	require.ErrorAs(t, s.check(t, name), &e)
	assert.Equal(t, tables[0], e.Table[strings.LastIndex(e.Table, ".")+1:], "it must not create tables")
}

// respectNewer stores the versions of an older and of newer releases.
func respectNewer(t *testing.T, s Store) {
	name := Database(t, s.Driver)
	db := open(t, s.Driver, name)
	require.NoError(t, s.Create(t.Context(), db, name))
	var want int
	table := s.tables()[0]
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT version FROM "+table).Scan(&want))
	for _, c := range []struct {
		found, oldest, after int
		check, create        string
	}{
		{found: want - 1, oldest: want - 1, after: want, check: "call test.Migrate"},
		{found: want + 2, oldest: want, after: want + 2},
		{found: want + 2, oldest: want + 1, after: want + 2, check: "of a newer release", create: "of a newer release"},
	} {
		_, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE %s SET version = %d, oldest = %d", table, c.found, c.oldest))
		require.NoError(t, err)
		for _, of := range []struct {
			err  error
			want string
		}{{s.check(t, name), c.check}, {s.Create(t.Context(), db, name), c.create}} {
			var e *api.SchemaError
			if of.want == "" {
				require.NoError(t, of.err)
				continue
			}
			require.ErrorAs(t, of.err, &e)
			require.ErrorContains(t, e, of.want)
			assert.Equal(t, c.found, e.Found)
		}
		var after int
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT version FROM "+table).Scan(&after))
		assert.Equal(t, c.after, after)
	}
}

// tables returns the names of the tables in their order. The first one contains the version.
func (s Store) tables() (names []string) {
	for _, match := range regexp.MustCompile(`TABLE IF NOT EXISTS (\S+)`).FindAllStringSubmatch(s.Script, -1) {
		names = append(names, match[1])
	}
	return names
}

// check compares a database with the script.
func (s Store) check(t *testing.T, name string) error {
	t.Helper()
	db := open(t, s.Driver, name)
	return sqldb.Schema{Dialect: dialects[s.Driver], Script: s.script(t, db), Migrate: "test.Migrate"}.Check(t.Context(), db)
}

// script returns the script for the schema of a database.
func (s Store) script(t *testing.T, db *sql.DB) (script string) {
	t.Helper()
	if s.ScriptIn == nil {
		return s.Script
	}
	var schema string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema))
	return s.ScriptIn(schema)
}
