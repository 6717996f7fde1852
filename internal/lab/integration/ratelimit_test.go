package integration_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/integration"
	"github.com/dispensary-go/dispensary/internal/testkit/postgrestest"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/oauth/accounts"
	"github.com/dispensary-go/dispensary/ratelimit"
)

// Calls of users and clinics and token requests of all processes share the limit.
func TestProcessesShareRateLimit(t *testing.T) {
	t.Parallel()
	const limit = 20
	for name, c := range map[string]struct {
		store     func(*testing.T) string
		limits    ratelimit.Store
		processes int
	}{
		"one process":  {store: func(t *testing.T) string { return "sqlite:" + file(t) }, processes: 1},
		"PostgreSQL":   {store: func(t *testing.T) string { return postgrestest.Schema(t) }, processes: 2},
		"custom store": {store: func(t *testing.T) string { return "sqlite:" + file(t) }, limits: ratelimit.NewMemoryStore(), processes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t).kept(c.store(t), "memory:")
			f.variables["DISPENSARY_US_SANDBOX_RATE_LIMIT"] = "20/1h"
			setup := f.setup(succeed)
			setup.RateLimitStore, setup.DisableReconcile = c.limits, true
			platform := f.platforms[us]
			var all []*integration.Integration
			for range c.processes {
				all = append(all, f.open(t, setup))
			}
			f.connect(t, us, "us:dr-1")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			calls := 0
			for failed := 0; failed < len(all); calls++ {
				i := all[calls%len(all)]
				client, err := i.Accounts.Client(ctx, "us:dr-1")
				require.NoError(t, err)
				if _, err := client.Clinic.Get(ctx); err != nil {
					require.ErrorIs(t, err, ratelimit.ErrDeadline)
					failed++
				}
			}
			for _, i := range all {
				conns, err := i.Accounts.Connections(us)
				require.NoError(t, err)
				_, err = conns.Client().Admit(ctx)
				require.ErrorIs(t, err, ratelimit.ErrDeadline)
				clinic, err := i.Accounts.ForClinic(ctx, us, platform.Clinics.All()[0].ID, accounts.ClinicOptions{})
				require.NoError(t, err)
				_, err = clinic.Client.Clinic.Get(ctx)
				require.ErrorIs(t, err, dispensary.ErrNotSent)
			}
			sent := slices.DeleteFunc(platform.Journal.Requests(), func(r model.Request) bool {
				return r.Operation == "" || r.Operation == "oauth.authorize" // request of the browser
			})
			assert.Len(t, sent, limit)
		})
	}
}

// Without RateLimit each process has the default limit, and Open creates no table for it.
func TestDefaultLimitStaysInProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	schema := postgrestest.Schema(t)
	f.kept(schema, "memory:")
	f.open(t, f.setup(succeed))
	db, err := sql.Open("pgx", schema)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "SELECT 1 FROM dispensary_ratelimit")
	assert.ErrorContains(t, err, "does not exist")
}

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
