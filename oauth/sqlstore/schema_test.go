package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
	"github.com/dispensary-go/dispensary/seal"
)

func TestMigrationCanRepeat(t *testing.T) {
	t.Parallel()
	for dialect, driver := range drivers {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			script, err := sqlstore.Schema(string(dialect))
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

func TestOpenChecksArguments(t *testing.T) {
	t.Parallel()
	_, err := sqlstore.Open(t.Context(), nil, seal.InsecurePlaintext{})
	require.ErrorIs(t, err, api.ErrArgument)
	_, err = sqlstore.Open(t.Context(), newDatabase(t, sqlstore.SQLite).open(t), nil)
	require.ErrorIs(t, err, api.ErrArgument)
	_, err = sqlstore.Schema("oracle")
	require.ErrorIs(t, err, api.ErrArgument)
}

func TestOpenCreatesTables(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db, ring := d.open(t), seal.InsecurePlaintext{}
		_, err := sqlstore.OpenExisting(t.Context(), db, ring)
		var missing *api.SchemaError
		require.ErrorAs(t, err, &missing)
		require.Equal(t, api.SchemaError{Table: "dispensary_oauth_schema", Want: 1, Migrate: "sqlstore.Open"}, *missing)
		_, err = sqlstore.OpenExisting(t.Context(), db, ring)
		require.ErrorAs(t, err, &missing, "OpenExisting creates no table")
		for _, open := range []func(context.Context, *sql.DB, seal.AEAD) (tokenstore.Store, error){sqlstore.Open, sqlstore.Open, sqlstore.OpenExisting} {
			store, err := open(t.Context(), db, ring)
			require.NoError(t, err)
			save(t, store)
		}
	})
}

func TestOpenReportsDatabaseError(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, sqlstore.SQLite).open(t)
	require.NoError(t, db.Close())
	_, err := sqlstore.Open(t.Context(), db, seal.InsecurePlaintext{})
	require.ErrorContains(t, err, "sqlstore: detect the database: sql: database is closed")
}
