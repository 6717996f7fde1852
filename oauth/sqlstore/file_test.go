package sqlstore_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// skipOnWindows skips a test that moves or removes open files.
func skipOnWindows(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move or remove open files")
	}
}

// openFile opens a store in a file. The database is closed at the end of the test or earlier.
func openFile(t *testing.T, path string) (tokenstore.Store, *sql.DB) {
	t.Helper()
	db, err := sqlstore.OpenSQLite("sqlite", path)
	require.NoError(t, err)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite))
	store := sqlstore.New(db, sqlstore.SQLite)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return store, db
}

func newFile(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	return filepath.Join(folder, "tokens.db")
}

// moveAside renames files of the database at path.
func moveAside(t *testing.T, path string, ends ...string) {
	t.Helper()
	for _, end := range ends {
		require.NoError(t, os.Rename(path+end, path+".old"+end))
	}
}

func TestReplacedFileStopsStore(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	for _, ends := range [][]string{{"", "-wal", "-shm"}, {""}, {"-wal"}} {
		path := newFile(t)
		store, _ := openFile(t, path)
		record := save(t, store)
		lease := tokenstore.Lease{Key: user17, Version: record.Version, Owner: "a"}

		moveAside(t, path, ends...)
		for range 2 {
			_, err := store.Save(t.Context(), user17, token(api.NewSecret("lost")))
			require.ErrorIs(t, err, api.ErrReplaced)
		}
		_, err := store.Commit(t.Context(), lease, token(api.NewSecret("lost")))
		require.ErrorIs(t, err, api.ErrReplaced)
		require.ErrorIs(t, store.DeleteVersion(t.Context(), user17, record.Version), api.ErrReplaced)
		require.ErrorIs(t, store.CheckWrite(t.Context()), api.ErrReplaced)
		_, err = store.Load(t.Context(), user17)
		require.ErrorIs(t, err, api.ErrReplaced)
	}
}

// An operator moves the files of a running process and starts the next process.
func TestClosedStoreKeepsSuccessorsLog(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path := newFile(t)
	first, db := openFile(t, path)
	save(t, first)
	moveAside(t, path, "", "-wal", "-shm")
	second, _ := openFile(t, path)
	save(t, second)
	require.ErrorIs(t, first.CheckWrite(t.Context()), api.ErrReplaced)
	require.NoError(t, db.Close())
	assert.FileExists(t, path+"-wal")
	save(t, second)
}

// SQLite removes the log with the last connection, truncates it and rewrites the file.
func TestStoreToleratesFileMaintenance(t *testing.T) { //nolint:paralleltest // a removed log keeps its inode, and another test moves logs
	path := newFile(t)
	store, db := openFile(t, path)
	for round := range 20 {
		db.SetMaxIdleConns(round % 2)
		save(t, store)
		_, err := store.Load(t.Context(), user17)
		require.NoError(t, err)
		for _, statement := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"} {
			_, err := db.ExecContext(t.Context(), statement)
			require.NoError(t, err)
			save(t, store)
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				_, err := store.Save(t.Context(), user18, token(api.NewSecret("access")))
				assert.NoError(t, err)
			})
		}
		group.Wait()
	}
	require.NoError(t, db.Close())
}

func TestHardLinkIsRejected(t *testing.T) {
	t.Parallel()
	skipOnWindows(t)
	path, link := newFile(t), newFile(t)
	store, _ := openFile(t, path)
	require.NoError(t, os.Link(path, link))
	_, err := store.Load(t.Context(), user17)
	require.ErrorIs(t, err, api.ErrUnsafePath)
	_, err = sqlstore.OpenSQLite("sqlite", link)
	require.ErrorIs(t, err, api.ErrUnsafePath)
}

// TestBackupRestoresRecords follows the section "Backup and restore" of the package.
func TestBackupRestoresRecords(t *testing.T) {
	t.Parallel()
	path, backup := newFile(t), newFile(t)
	store, db := openFile(t, path)
	before := save(t, store)
	_, err := db.ExecContext(t.Context(), "VACUUM INTO ?", backup)
	require.NoError(t, err)
	_, err = store.Save(t.Context(), user18, token(api.NewSecret("later")))
	require.NoError(t, err)
	require.NoError(t, db.Close())

	for _, end := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + end); !os.IsNotExist(err) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Rename(backup, path))
	restored, _ := openFile(t, path)
	record, err := restored.Load(t.Context(), user17)
	require.NoError(t, err)
	assert.Equal(t, before.Version, record.Version)
	assert.Equal(t, before.Token.AccessToken, record.Token.AccessToken)
	_, err = restored.Load(t.Context(), user18)
	require.ErrorIs(t, err, tokenstore.ErrNoRecord)
	save(t, restored)
}
