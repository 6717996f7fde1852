package sqlstore_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sqlschematest"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	for dialect, driver := range map[sqlstore.Dialect]string{sqlstore.SQLite: "sqlite", sqlstore.PostgreSQL: "pgx", sqlstore.MySQL: "mysql"} {
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

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, sqlstore.SQLite).open(t)
	for name, c := range map[string]struct {
		db      *sql.DB
		dialect sqlstore.Dialect
		prefix  string
	}{
		"no database": {nil, sqlstore.SQLite, ""}, "no dialect": {db, "", ""}, "another dialect": {db, "oracle", ""},
		"a prefix with SQL": {db, sqlstore.SQLite, "x; drop table y--"}, "an upper case prefix": {db, sqlstore.SQLite, "Tokens_"},
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

func TestCheckSchema(t *testing.T) {
	t.Parallel()
	db, err := sqlstore.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "tokens.db"))
	require.NoError(t, err)
	check := func() error {
		return sqlstore.CheckSchema(t.Context(), db, sqlstore.SQLite, sqlstore.Config{})
	}
	var missing *sqlstore.SchemaError
	require.ErrorAs(t, check(), &missing)
	require.ErrorAs(t, check(), &missing, "it creates nothing")
	require.Equal(t, sqlstore.SchemaError{Table: "dispensary_oauth_tokens"}, *missing)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite, sqlstore.Config{}))
	require.NoError(t, check())
	require.NoError(t, db.Close())
	require.ErrorContains(t, check(), "sqlstore: check the schema: sql: database is closed")
}
