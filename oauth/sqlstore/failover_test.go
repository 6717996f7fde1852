package sqlstore_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

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
