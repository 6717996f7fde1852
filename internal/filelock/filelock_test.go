package filelock_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/filelock"
)

func TestLockExcludesOthersUntilClose(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.lock")
	lock, err := filelock.Acquire(path)
	require.NoError(t, err)
	_, err = filelock.Acquire(path)
	require.ErrorIs(t, err, filelock.ErrHeld)
	require.NoError(t, lock.Check())
	require.NoError(t, lock.Close())
	lock, err = filelock.Acquire(path)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

func TestCheckReportsRemovedLockFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not remove a locked file")
	}
	path := filepath.Join(t.TempDir(), "a.lock")
	first, err := filelock.Acquire(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.ErrorIs(t, first.Check(), filelock.ErrLost)

	second, err := filelock.Acquire(path)
	require.NoError(t, err)
	require.ErrorIs(t, first.Check(), filelock.ErrLost)
	require.NoError(t, second.Check())
	require.NoError(t, first.Close())
	require.NoError(t, second.Check())
	require.NoError(t, second.Close())
}
