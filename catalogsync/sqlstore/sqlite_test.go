package sqlstore_test

import (
	"database/sql"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// databaseOf creates a database file with the given SQL, as another program would.
func databaseOf(t *testing.T, path, script string) {
	t.Helper()
	db, err := sql.Open("sqlite", sqlitefile.DSN(path, nil))
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), script)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

// folder returns the contents of all files, by name.
func folder(t *testing.T, path string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	files := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(path, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(content)
	}
	return files
}

// requireSameFiles compares files without printing them.
func requireSameFiles(t *testing.T, before, after map[string]string) {
	t.Helper()
	require.ElementsMatch(t, slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)))
	for name, content := range before {
		require.True(t, content == after[name], "%s has changed", name)
	}
}

// OpenSQLite must not change a rejected file or its folder.
func TestOpenSQLiteRejectsOtherFiles(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, path string){
		"a text": func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("no database, whatever its name says"), 0o600))
		},
		"half a database": func(t *testing.T, path string) {
			databaseOf(t, path, "CREATE TABLE a (b); CREATE TABLE c (d)")
			require.NoError(t, os.Truncate(path, 1_000))
		},
		"tables": func(t *testing.T, path string) { databaseOf(t, path, "CREATE TABLE visits (place TEXT)") },
		"tables and a log": func(t *testing.T, path string) {
			databaseOf(t, path, "PRAGMA journal_mode = wal; CREATE TABLE visits (place TEXT)")
		},
		"another application": func(t *testing.T, path string) { databaseOf(t, path, "PRAGMA application_id = 7") },
		"a folder":            func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "catalog.db")
			make(t, path)
			before := folder(t, filepath.Dir(path))
			_, err := sqlstore.OpenSQLite(t.Context(), "sqlite", path)
			require.ErrorIs(t, err, sqlstore.ErrNotCatalog)
			assert.Contains(t, err.Error(), path)
			requireSameFiles(t, before, folder(t, filepath.Dir(path)))
		})
	}
}

func TestOpenSQLiteAcceptsCatalogFiles(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, path string){
		"no file":       func(*testing.T, string) {},
		"an empty file": func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) },
		"a catalog beside other tables": func(t *testing.T, path string) {
			databaseOf(t, path, "PRAGMA application_id = 7; CREATE TABLE visits (place TEXT);"+sqlstore.SQLiteSchema)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := database{driver: "sqlite", name: filepath.Join(t.TempDir(), "a b?%#.db")}
			make(t, d.name)
			for want := range 2 {
				db := d.open(t)
				store := d.store(t, db)
				require.Equal(t, want, count(t, store))
				if want == 0 {
					save(t, store)
				}
				require.NoError(t, db.Close())
			}
		})
	}
}

func TestOpenSQLiteRejectsBadPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{":memory:", "file:catalog.db"} {
		_, err := sqlstore.OpenSQLite(t.Context(), "sqlite", path)
		require.ErrorIs(t, err, api.ErrArgument)
	}
	_, err := sqlstore.OpenSQLite(t.Context(), "sqlite", filepath.Join(t.TempDir(), "none", "catalog.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = sqlstore.OpenSQLite(t.Context(), "no such driver", filepath.Join(t.TempDir(), "catalog.db"))
	require.ErrorContains(t, err, "no such driver")
}

// A file has one lock, also under the path of a symbolic link.
func TestLinkedFileSharesLock(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, "sqlite")
	one := d.store(t, d.open(t))
	link := d
	link.name = filepath.Join(t.TempDir(), "link.db")
	require.NoError(t, os.Symlink(d.name, link.name))
	two := link.store(t, link.open(t))
	unlock, err := one.Lock(t.Context())
	require.NoError(t, err)
	_, err = two.Lock(t.Context())
	require.ErrorIs(t, err, catalogstore.ErrSyncing)

	require.NoError(t, unlock())
	require.NoError(t, unlock(), "again")
	unlock, err = two.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, unlock())
}

func TestLockRejectsMemoryDatabase(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	store, err := sqlstore.Open(t.Context(), db)
	require.NoError(t, err)
	_, err = store.Lock(t.Context())
	require.ErrorContains(t, err, "in memory")
}
