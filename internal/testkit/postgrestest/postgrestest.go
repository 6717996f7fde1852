// Package postgrestest creates a separate PostgreSQL schema for each test.
package postgrestest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Variable is the environment variable with the database URL, such as
// postgres://postgres@127.0.0.1:5432/test?sslmode=disable.
const Variable = "DISPENSARY_TEST_POSTGRES"

// Schema creates an empty schema, drops it after the test and returns its URL. It skips the
// test if [Variable] is not set. The caller registers the driver "pgx" by importing
// github.com/jackc/pgx/v5/stdlib.
func Schema(t testing.TB) string {
	t.Helper()
	address := os.Getenv(Variable)
	if address == "" {
		t.Skipf("%s is not set", Variable)
	}
	db, err := sql.Open("pgx", address)
	require.NoError(t, err)
	schema := "test_" + strings.ToLower(rand.Text()[:10])
	_, err = db.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, drop(db, schema))
		assert.NoError(t, db.Close())
	})
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + "search_path=" + schema
}

// drop drops a schema. A statement of the test that the server has yet to cancel can cause a
// deadlock, so drop tries up to 10 times.
func drop(db *sql.DB, schema string) (err error) {
	for range 10 {
		_, err = db.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		if err == nil || !strings.Contains(err.Error(), "40P01") { // deadlock_detected
			break
		}
	}
	return err
}
