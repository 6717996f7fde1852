package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/sqltest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	for dialect, driver := range drivers {
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

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, sqlstore.SQLite).open(t)
	_, err := sqlstore.New(nil, sqlstore.SQLite, sqlstore.Config{})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	_, err = sqlstore.New(db, "oracle", sqlstore.Config{})
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	require.ErrorIs(t, sqlstore.Migrate(t.Context(), db, ""), api.ErrInvalidArgument)
	require.ErrorIs(t, sqlstore.CheckSchema(t.Context(), db, ""), api.ErrInvalidArgument)
	_, err = sqlstore.Schema("")
	require.ErrorIs(t, err, api.ErrInvalidArgument)
}

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	db, err := sqlstore.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "tokens.db"))
	require.NoError(t, err)
	check := func() error {
		return sqlstore.CheckSchema(t.Context(), db, sqlstore.SQLite)
	}
	var missing *sqlstore.SchemaError
	require.ErrorAs(t, check(), &missing)
	require.ErrorAs(t, check(), &missing, "it creates nothing")
	require.Equal(t, sqlstore.SchemaError{Table: "dispensary_oauth_tokens"}, *missing)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite))
	require.NoError(t, check())
	require.NoError(t, db.Close())
	require.ErrorContains(t, check(), "sqlstore: check the schema: sql: database is closed")
}
