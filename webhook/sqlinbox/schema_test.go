package sqlinbox_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/receivertest"
	"github.com/dispensary-go/dispensary/webhook/engine"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestMigrateRunsAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program.db")
	var group sync.WaitGroup
	for range 4 {
		db := database(t, path)
		group.Go(func() {
			for range 3 {
				assert.NoError(t, sqlinbox.Migrate(context.Background(), db))
			}
		})
	}
	group.Wait()
	db := database(t, path)
	assert.Equal(t, map[string]int{"3": 1}, countTexts(t, db, "SELECT version FROM dispensary_inbox_schema"))
	for name := range countTexts(t, db, "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'") {
		assert.Regexp(t, "^dispensary_inbox", name)
	}
}

func TestMigrateDoesEverythingOrNothing(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "program.db"))
	_, err := db.ExecContext(t.Context(), "CREATE TABLE dispensary_inbox_newest (mine TEXT)")
	require.NoError(t, err)
	require.Error(t, sqlinbox.Migrate(t.Context(), db))
	assert.Len(t, countTexts(t, db, "SELECT name FROM sqlite_master"), 1)
	_, err = db.ExecContext(t.Context(), "DROP TABLE dispensary_inbox_newest")
	require.NoError(t, err)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
}

func TestNewWantsTheTablesOfItsVersion(t *testing.T) {
	t.Parallel()
	db := database(t, filepath.Join(t.TempDir(), "program.db"))
	_, err := sqlinbox.New(db, config(t, receivertest.Succeed))
	require.ErrorIs(t, err, sqlinbox.ErrSchema)
	require.NoError(t, sqlinbox.Migrate(t.Context(), db))
	inbox, err := sqlinbox.New(db, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
	require.NoError(t, db.PingContext(t.Context()), "the database is the program's")

	for version, want := range []error{2: sqlinbox.ErrSchema, 3: nil, 4: sqlinbox.ErrNewerSchema} {
		_, err = db.ExecContext(t.Context(), "UPDATE dispensary_inbox_schema SET version = ?", version)
		require.NoError(t, err)
		if want != nil {
			_, err = sqlinbox.New(db, config(t, receivertest.Succeed))
			require.ErrorIs(t, err, want)
		}
	}
	require.ErrorIs(t, sqlinbox.Migrate(t.Context(), db), sqlinbox.ErrNewerSchema)
}

func TestOpenIsForOne(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path, link := filepath.Join(folder, "inbox.db"), filepath.Join(folder, "other.db")
	inbox, err := sqlinbox.Open(path, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, os.Symlink(path, link))
	for _, name := range []string{path, link} {
		_, err = sqlinbox.Open(name, config(t, receivertest.Succeed))
		require.ErrorIs(t, err, sqlinbox.ErrInUse)
	}
	_, err = sqlinbox.New(database(t, path), config(t, receivertest.Succeed))
	require.ErrorIs(t, err, sqlinbox.ErrInUse)
	require.NoError(t, inbox.Close(t.Context()))
	inbox, err = sqlinbox.Open(link, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
}

func TestOpenMakesAPrivateFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	inbox := open(t, filepath.Join(folder, "inbox.db"), config(t, receivertest.Succeed))
	receivertest.Accept(t, inbox)
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 5, "database, log, its index, lock, reserve")
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, change := range map[string]func(*sqlinbox.Config){
		"no seal":         func(c *sqlinbox.Config) { c.Seal = nil },
		"no handler":      func(c *sqlinbox.Config) { c.Work.Handle = nil },
		"short retention": func(c *sqlinbox.Config) { c.Retention = engine.DefaultRetention / 2 },
	} {
		c := config(t, receivertest.Succeed)
		change(&c)
		_, err := sqlinbox.Open(filepath.Join(folder, "inbox.db"), c)
		require.Error(t, err, name)
	}
	inbox, err := sqlinbox.Open(filepath.Join(folder, "inbox.db"), config(t, receivertest.Succeed))
	require.NoError(t, err, "what was refused holds no lock")
	require.NoError(t, inbox.Close(t.Context()))

	_, err = sqlinbox.Open(filepath.Join(folder, "no", "such", "folder.db"), config(t, receivertest.Succeed))
	require.ErrorIs(t, err, os.ErrNotExist)
	text := filepath.Join(folder, "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is no database, whatever its name says it may be"), 0o600))
	_, err = sqlinbox.Open(text, config(t, receivertest.Succeed))
	require.Error(t, err)

	memory, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { _ = memory.Close() }()
	_, err = sqlinbox.New(memory, config(t, receivertest.Succeed))
	require.ErrorContains(t, err, "in memory")
	memory.SetMaxOpenConns(1)
	_, err = sqlinbox.New(memory, config(t, receivertest.Succeed))
	require.ErrorContains(t, err, "one connection")
	require.False(t, errors.Is(err, sqlinbox.ErrInUse))
}

func TestSchemaIsWhatMigrateMakes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	migrated, applied := database(t, filepath.Join(folder, "migrated.db")), database(t, filepath.Join(folder, "applied.db"))
	require.NoError(t, sqlinbox.Migrate(t.Context(), migrated))
	_, err := applied.ExecContext(t.Context(), sqlinbox.Schema())
	require.NoError(t, err)
	for _, query := range []string{
		"SELECT name || ' ' || coalesce(sql, '') FROM sqlite_master",
		"SELECT version FROM dispensary_inbox_schema",
	} {
		assert.Equal(t, countTexts(t, migrated, query), countTexts(t, applied, query))
	}
	inbox, err := sqlinbox.New(applied, config(t, receivertest.Succeed))
	require.NoError(t, err)
	require.NoError(t, inbox.Close(t.Context()))
	require.NoError(t, sqlinbox.Migrate(t.Context(), applied))
}
