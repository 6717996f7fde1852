package sqlitefile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/filelock"
	"github.com/dispensary-go/dispensary/internal/sqlitefile"
)

// database creates the files of a database.
func database(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.db")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
	return path
}

func TestGuardReportsFirstMismatchOnce(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move or remove open files")
	}
	for _, end := range []string{"", "-wal", ".lock"} {
		path := database(t)
		lock, err := filelock.Acquire(path + ".lock")
		require.NoError(t, err)
		var reports []error
		guard, err := sqlitefile.NewGuard(sqlitefile.Config{
			Path: path, Lock: lock, Pinned: true, Failed: func(err error) { reports = append(reports, err) },
		})
		require.NoError(t, err)
		require.NoError(t, guard.Check())
		require.NoError(t, guard.Err())

		require.NoError(t, os.Rename(path+end, path+".moved"))
		require.ErrorIs(t, guard.Check(), api.ErrReplaced)
		require.NoError(t, os.Rename(path+".moved", path+end))
		require.ErrorIs(t, guard.Check(), api.ErrReplaced, "the error is permanent")
		require.ErrorIs(t, guard.Err(), api.ErrReplaced)
		require.Len(t, reports, 1)
		assert.ErrorContains(t, reports[0], "(a.db"+end+")")
		require.NoError(t, lock.Close())
	}
}

// SQLite removes the log with the last connection of a pool, and recreates it later.
func TestGuardToleratesNewLogWithoutPin(t *testing.T) { //nolint:paralleltest // a removed log leaves its inode, and another test moves logs
	path := database(t)
	guard, err := sqlitefile.NewGuard(sqlitefile.Config{Path: path})
	require.NoError(t, err)
	require.NoError(t, os.Remove(path+"-wal"))
	require.NoError(t, guard.Check())
	require.NoError(t, os.WriteFile(path+"-wal", nil, 0o600))
	require.NoError(t, guard.Check())
	require.NoError(t, guard.Check())
}

func TestGuardChecksWithFewAllocations(t *testing.T) { //nolint:paralleltest // counts the allocations of the process
	path := database(t)
	guard, err := sqlitefile.NewGuard(sqlitefile.Config{Path: path, Pinned: true})
	require.NoError(t, err)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = guard.Check() }), 2.0, "one allocation for each path")
}

func TestCheckPathAcceptsOtherPaths(t *testing.T) {
	t.Parallel()
	path := database(t)
	require.NoError(t, sqlitefile.CheckPath(path))
	require.NoError(t, sqlitefile.CheckPath(filepath.Join(t.TempDir(), "none.db")))
	require.NoError(t, sqlitefile.CheckPath(t.TempDir()), "SQLite itself reports a folder")
}

func TestOwnExcludesOtherOwners(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs open file description locks")
	}
	for _, closes := range []bool{true, false} {
		path, response := database(t), func() bool { return closes }
		owner, err := sqlitefile.Own(path, response)
		require.NoError(t, err)
		_, err = os.ReadFile(path) // closes a descriptor
		require.NoError(t, err)
		_, err = sqlitefile.Own(path, response)
		require.ErrorIs(t, err, filelock.ErrHeld)
		require.NoError(t, owner.Release())
		owner, err = sqlitefile.Own(path, response)
		require.NoError(t, err)
		require.NoError(t, owner.Release())
	}
}

func TestCreateKeepsExistingFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	for _, want := range []bool{true, false} {
		created, err := sqlitefile.Create("field", path)
		require.NoError(t, err)
		assert.Equal(t, want, created)
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	for _, path := range []string{":memory:", "file:a.db"} {
		_, err = sqlitefile.Create("field", path)
		require.ErrorIs(t, err, api.ErrArgument)
	}
	_, err = sqlitefile.Create("field", filepath.Join(t.TempDir(), "none", "a.db"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
