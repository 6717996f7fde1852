package sqlstore_test

import (
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
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
		store := d.store(t, db)
		save(t, store)
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		assert.Equal(t, 1, count(t, store))
	})
}

// A table that another program has made is not changed, and no other one is made beside it.
func TestMigrateDoesEverythingOrNothing(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.open(t)
		d.exec(t, db, "CREATE TABLE {requests} (mine integer)")
		before := d.describe(t, db)
		require.Error(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		assert.Equal(t, before, d.describe(t, db))
		d.exec(t, db, "DROP TABLE {requests}")
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
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

// The text makes what Migrate makes, so that Migrate finds nothing left to do.
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
		want := migrated.describe(t, migrated.migrated(t))
		assert.GreaterOrEqual(t, len(want), 5, "tables")
		assert.Equal(t, want, applied.describe(t, db))
		applied.forbidChanges(t, db)
		require.NoError(t, sqlstore.Migrate(t.Context(), db, applied.dialect, applied.config()))
		require.NoError(t, sqlstore.CheckSchema(t.Context(), db, applied.dialect, applied.config()))
	})
}

// CheckSchema tells tables that are missing or of another version from a database that is
// away, and makes none.
func TestCheckSchema(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.open(t)
		check := func() error { return sqlstore.CheckSchema(t.Context(), db, d.dialect, d.config()) }
		require.ErrorIs(t, check(), sqlstore.ErrSchema)
		require.ErrorIs(t, check(), sqlstore.ErrSchema, "it makes nothing")
		require.NoError(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()))
		require.NoError(t, check())
		d.exec(t, db, "DELETE FROM {schema}")
		require.ErrorIs(t, check(), sqlstore.ErrSchema)
		require.NoError(t, db.Close())
		err := check()
		require.Error(t, err)
		require.NotErrorIs(t, err, sqlstore.ErrSchema)
	})
}

func TestANewerSchemaIsLeftAlone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, d database) {
		db := d.migrated(t)
		d.exec(t, db, "INSERT INTO {schema} (version, applied_at) VALUES (99, 'tomorrow')")
		before := d.describe(t, db)
		require.ErrorIs(t, sqlstore.CheckSchema(t.Context(), db, d.dialect, d.config()), sqlstore.ErrNewerSchema)
		require.ErrorIs(t, sqlstore.Migrate(t.Context(), db, d.dialect, d.config()), sqlstore.ErrNewerSchema)
		assert.Equal(t, before, d.describe(t, db))
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

// describe returns the tables and indexes as the database sees them.
func (d database) describe(t testing.TB, db *sql.DB) (lines []string) {
	t.Helper()
	query := `SELECT name || ' ' || COALESCE(sql, '') FROM sqlite_master`
	if d.dialect == sqlstore.PostgreSQL {
		query = strings.ReplaceAll(`SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default, collation_name)
				FROM information_schema.columns WHERE table_name LIKE '{prefix}%'
			UNION ALL SELECT concat_ws(' ', indexname, indexdef) FROM pg_indexes WHERE tablename LIKE '{prefix}%'
			UNION ALL SELECT concat_ws(' ', relname, reloptions) FROM pg_class WHERE relname LIKE '{prefix}%'`, "{prefix}", d.prefix)
	}
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		lines = append(lines, strings.ReplaceAll(line, d.prefix, "{prefix}"))
	}
	require.NoError(t, rows.Err())
	slices.Sort(lines)
	return lines
}

// forbidChanges leaves the pool a single connection, which can only read.
func (d database) forbidChanges(t testing.TB, db *sql.DB) {
	t.Helper()
	db.SetMaxOpenConns(1)
	d.exec(t, db, map[sqlstore.Dialect]string{
		sqlstore.SQLite: "PRAGMA query_only = on", sqlstore.PostgreSQL: "SET default_transaction_read_only = on",
	}[d.dialect])
}
