// Package postgrestest gives a test a schema of its own in PostgreSQL.
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

// Variable holds the address of the database,
// postgres://postgres@127.0.0.1:5432/test?sslmode=disable for example.
const Variable = "DISPENSARY_TEST_POSTGRES"

// Schema returns the address of an empty schema that ends with the test, and skips the
// test where there is no database. The program registers the driver: "pgx" of
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
		_, err := db.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE")
		assert.NoError(t, err)
		assert.NoError(t, db.Close())
	})
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + "search_path=" + schema
}
