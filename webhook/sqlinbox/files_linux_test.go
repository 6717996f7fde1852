package sqlinbox_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook/sqlinbox"
)

func TestRemovedLockFileKeepsDatabaseLocked(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	first := holding(t, path)
	receivertest.Accept(t, first)
	require.NoError(t, os.Remove(path+".lock"))
	_, err := sqlinbox.Open(path, config(t, receivertest.Hold))
	require.ErrorIs(t, err, sqlinbox.ErrInUse)
	_, err = first.Accept(t.Context(), receivertest.NewDelivery())
	require.ErrorIs(t, err, api.ErrReplaced)
}

// A program opens and closes the file if it copies its own database.
func TestReadingDatabaseKeepsLocks(t *testing.T) {
	t.Parallel()
	require.True(t, sqlite.OFDLockingEnabled())
	path := newPath(t)
	inbox := holding(t, path)
	receivertest.Accept(t, inbox)
	_, err := os.ReadFile(path)
	require.NoError(t, err)

	// SQLite removes the log only if it can lock these bytes (see lockBtree of SQLite).
	const first, size, setLock = 0x40000000 + 2, 510, 37
	probe, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = probe.Close() }()
	err = syscall.FcntlFlock(probe.Fd(), setLock, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: first, Len: size})
	require.ErrorIs(t, err, syscall.EAGAIN)
}

func TestOpenRejectsFileMountedAlone(t *testing.T) {
	t.Parallel()
	host, container := newPath(t), newPath(t)
	for _, path := range []string{host, container} {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	if err := syscall.Mount(host, container, "", syscall.MS_BIND, ""); err != nil {
		if os.Getuid() != 0 {
			t.Skip("needs root to mount a file")
		}
		t.Skip("cannot mount a file on this machine")
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(container, syscall.MNT_DETACH)) })
	_, err := sqlinbox.Open(container, config(t, receivertest.Hold))
	require.ErrorIs(t, err, api.ErrUnsafePath)
	require.ErrorContains(t, err, "mount the folder")
	info, err := os.Stat(container)
	require.NoError(t, err)
	assert.Zero(t, info.Size(), "Open must not change the file")
}
