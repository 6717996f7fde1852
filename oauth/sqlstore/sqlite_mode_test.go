//go:build unix

package sqlstore_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth/sqlstore"
)

// withSQLite opens a file, creates the tables and writes a token, so that SQLite creates all
// its files. It returns their modes.
func withSQLite(t *testing.T, path string) map[string]os.FileMode {
	t.Helper()
	db, err := sqlstore.OpenSQLite("sqlite", path)
	require.NoError(t, err)
	require.NoError(t, sqlstore.Migrate(t.Context(), db, sqlstore.SQLite))
	store := sqlstore.New(db, sqlstore.SQLite)
	save(t, store)
	modes := map[string]os.FileMode{}
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		modes[file.Name()] = info.Mode().Perm()
	}
	require.NoError(t, db.Close())
	return modes
}

// The IDs of users, their clinics and their scopes are not encrypted.
func TestOpenSQLiteCreatesPrivateFile(t *testing.T) { //nolint:paralleltest // the umask belongs to the process
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	modes := withSQLite(t, filepath.Join(t.TempDir(), "a b?%.db"))
	assert.Equal(t, map[string]os.FileMode{"a b?%.db": 0o600, "a b?%.db-wal": 0o600, "a b?%.db-shm": 0o600}, modes)
}

// An existing file already has the mode that its creator chose.
func TestOpenSQLiteKeepsModeOfFile(t *testing.T) { //nolint:paralleltest // the umask belongs to the process
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	path := filepath.Join(t.TempDir(), "tokens.db")
	require.NoError(t, os.WriteFile(path, nil, 0o640))
	modes := withSQLite(t, path)
	assert.Equal(t, map[string]os.FileMode{"tokens.db": 0o640, "tokens.db-wal": 0o640, "tokens.db-shm": 0o640}, modes)
	assert.Equal(t, modes["tokens.db"], withSQLite(t, path)["tokens.db"])
}

func TestOpenSQLiteRejectsArguments(t *testing.T) {
	t.Parallel()
	_, err := sqlstore.OpenSQLite("sqlite", ":memory:")
	require.ErrorContains(t, err, "sqlstore.OpenSQLite path must be the path of a file")
	require.ErrorIs(t, err, api.ErrArgument)
	_, err = sqlstore.OpenSQLite("no such driver", filepath.Join(t.TempDir(), "tokens.db"))
	require.ErrorContains(t, err, "no such driver")
}
