package integration_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
)

// postgresDatabase creates a database until the end of the test and returns its URL. exec executes
// a statement, in which {name} stands for the database.
func postgresDatabase(t *testing.T) (address string, exec func(statement string)) {
	t.Helper()
	given := os.Getenv(postgrestest.Variable)
	if given == "" {
		t.Skipf("%s is not set", postgrestest.Variable)
	}
	db, err := sql.Open("pgx", given)
	require.NoError(t, err)
	name := "integration_" + strings.ToLower(rand.Text()[:10])
	exec = func(statement string) {
		_, err := db.ExecContext(context.Background(), strings.ReplaceAll(statement, "{name}", name))
		require.NoError(t, err)
	}
	exec("CREATE DATABASE {name}")
	t.Cleanup(func() {
		exec("DROP DATABASE {name} WITH (FORCE)")
		require.NoError(t, db.Close())
	})
	u, err := url.Parse(given)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String(), exec
}

// After a failover, a URL can lead to the former primary for a while. Once it leads to the new
// primary, the first write succeeds.
func TestPoolsReplaceReadOnlyConnections(t *testing.T) {
	t.Parallel()
	address, exec := postgresDatabase(t)
	f := newFixture(t).kept(address, address)
	i := f.open(t, f.setup(succeed))
	accept := func() error {
		_, err := i.Inbox.Accept(t.Context(), receivertest.NewDelivery())
		return err
	}
	require.NoError(t, accept())
	exec("ALTER DATABASE {name} SET default_transaction_read_only = on")
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
	for range 3 {
		require.Error(t, accept())
		require.Error(t, i.Inbox.CheckWrite(t.Context()))
	}
	exec("ALTER DATABASE {name} RESET default_transaction_read_only")
	require.NoError(t, accept())
	assert.NoError(t, i.Inbox.CheckWrite(t.Context()))
}
