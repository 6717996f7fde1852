// Package sqltest creates databases for the tests of SQL stores, and tests how a store creates
// its tables.
package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
