package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

func TestMigrateAtOnceAndAgain(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		var wg sync.WaitGroup
		for range 8 {
			db := d.open(t)
			wg.Go(func() {
				for range 3 {
					assert.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
				}
			})
		}
		wg.Wait()
		db := d.open(t)
		assert.Equal(t, 2, d.count(t, db, "SELECT COUNT(*) FROM "+d.prefix+"oauth_schema"))
		save(t, d.store(t, db))
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		assert.Equal(t, 1, d.count(t, db, "SELECT COUNT(*) FROM {tokens}"))
	})
}

// A database, or a role, may have another isolation level by default.
func TestMigrateAtOnceAtStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable%20read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, sqlstore.PostgreSQL)
			d.name += "&default_transaction_isolation=" + level
			var wg sync.WaitGroup
			for range 8 {
				db := d.open(t)
				wg.Go(func() { assert.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config())) })
			}
			wg.Wait()
		})
	}
}

// A program may die between two statements of a step.
func TestMigrateGoesOnWhereItWasInterrupted(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		save(t, d.store(t, db))
		d.exec(t, db, "DELETE FROM "+d.prefix+"oauth_schema")
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		assert.Equal(t, 1, d.count(t, db, "SELECT COUNT(*) FROM {tokens}"))
		assert.Equal(t, 2, d.count(t, db, "SELECT COUNT(*) FROM "+d.prefix+"oauth_schema"))
	})
}

func TestMigrateLeavesANewerSchemaAlone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		d.exec(t, db, "INSERT INTO "+d.prefix+"oauth_schema (version, applied_at) VALUES (99, 'tomorrow')")
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		save(t, d.store(t, db))
	})
}

// A program in production often may not change the schema.
func TestMigrateOnlyLooksWhereNothingIsMissing(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		bound := d.open(t)
		d.forbidChanges(t, bound)
		require.Error(t, sqlstore.Migrate(t.Context(), bound, d.dialect, d.config()))
		d.migrated(t)
		require.NoError(t, sqlstore.Migrate(t.Context(), bound, d.dialect, d.config()))
	})
}

// The text makes what Migrate makes, so that Migrate finds nothing left to do, with a
// role that may change nothing, too.
func TestSchemaIsWhatMigrateMakes(t *testing.T) {
	eachDatabase(t, func(t *testing.T, migrated database) {
		applied := newDatabase(t, migrated.dialect)
		schema, err := sqlstore.Schema(applied.dialect, applied.config())
		require.NoError(t, err)
		db := applied.open(t)
		for statement := range strings.SplitSeq(schema, ";\n") {
			if statement != "" {
				applied.exec(t, db, statement)
			}
		}
		want := migrated.catalog(t, migrated.migrated(t))
		assert.GreaterOrEqual(t, len(want), 5, "tables, indexes and a version")
		assert.Equal(t, want, applied.catalog(t, db))
		applied.forbidChanges(t, db)
		require.NoError(t, sqlstore.Migrate(t.Context(), db, applied.dialect, applied.config()))
	})
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
		_, err = sqlstore.Schema(c.dialect, config)
		require.ErrorIs(t, err, api.ErrInvalidArgument, name)
	}
}

// CheckSchema tells tables that are missing or old from a database that is away, and
// makes none.
func TestCheckSchema(t *testing.T) {
	t.Parallel()
	db, err := sqlstore.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "tokens.db"))
	require.NoError(t, err)
	check := func() error {
		return sqlstore.CheckSchema(t.Context(), db, sqlstore.SQLite, sqlstore.Config{})
	}
	require.ErrorIs(t, check(), sqlstore.ErrSchema)
	require.ErrorIs(t, check(), sqlstore.ErrSchema, "it makes nothing")
	require.NoError(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite, sqlstore.Config{}))
	require.NoError(t, check())
	_, err = db.ExecContext(t.Context(), "DELETE FROM dispensary_oauth_schema WHERE version > 1")
	require.NoError(t, err)
	require.ErrorIs(t, check(), sqlstore.ErrSchema)
	require.NoError(t, db.Close())
	err = check()
	require.Error(t, err)
	require.NotErrorIs(t, err, sqlstore.ErrSchema)
}
