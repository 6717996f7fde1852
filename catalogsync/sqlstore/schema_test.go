package sqlstore_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/internal/sqlschematest"
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
			script, err := sqlstore.Schema(dialect, sqlstore.Config{})
			require.NoError(t, err)
			sqlschematest.Run(t, sqlschematest.Store{
				Driver: driver, Script: script,
				Create: func(ctx context.Context, db *sql.DB, _ string) error {
					return sqlstore.Migrate(ctx, db, dialect, sqlstore.Config{})
				},
			})
		})
	}
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, sqlstore.SQLite)
	db := d.open(t)
	check := func() error { return sqlstore.CheckSchema(t.Context(), db, d.dialect, d.config()) }
	var missing *sqlstore.SchemaError
	require.ErrorAs(t, check(), &missing)
	require.ErrorAs(t, check(), &missing, "it creates nothing")
	require.Equal(t, sqlstore.SchemaError{Table: d.prefix + "catalog_products"}, *missing)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
	require.NoError(t, check())
	require.NoError(t, db.Close())
	require.ErrorContains(t, check(), "sqlstore: check the schema: sql: database is closed")
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, sqlstore.SQLite).open(t)
	for name, c := range map[string]struct {
		db      *sql.DB
		dialect sqlstore.Dialect
		prefix  string
	}{
		"no database": {nil, sqlstore.SQLite, ""}, "no dialect": {db, "", ""}, "another dialect": {db, "mysql", ""},
		"a prefix with SQL": {db, sqlstore.SQLite, "x; drop table y--"}, "an upper case prefix": {db, sqlstore.SQLite, "Catalog_"},
		"a digit first": {db, sqlstore.SQLite, "1_"}, "a long prefix": {db, sqlstore.SQLite, strings.Repeat("x", 41)},
	} {
		config := sqlstore.Config{TablePrefix: c.prefix}
		_, err := sqlstore.New(c.db, c.dialect, config)
		require.ErrorIs(t, err, api.ErrInvalidArgument, name)
		if c.db == nil {
			continue
		}
		require.ErrorIs(t, sqlstore.Migrate(t.Context(), c.db, c.dialect, config), api.ErrInvalidArgument, name)
		require.ErrorIs(t, sqlstore.CheckSchema(t.Context(), c.db, c.dialect, config), api.ErrInvalidArgument, name)
		_, err = sqlstore.Schema(c.dialect, config)
		require.ErrorIs(t, err, api.ErrInvalidArgument, name)
	}
}
