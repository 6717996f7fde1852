package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
)

// save stores a catalog of one product.
func save(t *testing.T, store catalogsync.Store) {
	t.Helper()
	w := catalogsync.Walk{Generation: 1, StartedAt: time.Now()}
	require.NoError(t, store.Begin(t.Context(), w))
	page, err := catalogsync.NewListed(time.Now(), catalog.Product{ID: "a", Name: "Zinc"})
	require.NoError(t, err)
	_, err = store.SavePage(t.Context(), w, page)
	require.NoError(t, err)
}

func count(t *testing.T, store catalogsync.Store) int {
	t.Helper()
	state, err := store.State(t.Context())
	require.NoError(t, err)
	return state.Records[catalogsync.Present]
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	for dialect, driver := range map[sqlstore.Dialect]string{sqlstore.SQLite: "sqlite", sqlstore.PostgreSQL: "pgx"} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			script, err := sqlstore.Schema(dialect)
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

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, sqlstore.SQLite)
	db := d.open(t)
	check := func() error { return sqlstore.CheckSchema(t.Context(), db, d.dialect) }
	var missing *sqlstore.SchemaError
	require.ErrorAs(t, check(), &missing)
	require.ErrorAs(t, check(), &missing, "it creates nothing")
	require.Equal(t, sqlstore.SchemaError{Table: "dispensary_catalog_products"}, *missing)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect))
	require.NoError(t, check())
	require.NoError(t, db.Close())
	require.ErrorContains(t, check(), "sqlstore: check the schema: sql: database is closed")
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, sqlstore.SQLite).open(t)
	_, err := sqlstore.New(nil, sqlstore.SQLite)
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	_, err = sqlstore.New(db, "mysql")
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	require.ErrorIs(t, sqlstore.Migrate(t.Context(), db, ""), api.ErrInvalidArgument)
	require.ErrorIs(t, sqlstore.CheckSchema(t.Context(), db, ""), api.ErrInvalidArgument)
	_, err = sqlstore.Schema("")
	require.ErrorIs(t, err, api.ErrInvalidArgument)
}
