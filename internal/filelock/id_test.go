//go:build unix

package filelock_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/filelock"
)

func TestIDFollowsFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	one, other, link := filepath.Join(folder, "one"), filepath.Join(folder, "other"), filepath.Join(folder, "link")
	require.NoError(t, os.WriteFile(one, nil, 0o600))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Symlink(one, link))
	file, err := os.Open(one)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()

	first, err := filelock.IDOf(one)
	require.NoError(t, err)
	second, err := filelock.IDOf(other)
	require.NoError(t, err)
	linked, err := filelock.IDOf(link)
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	assert.Equal(t, first, linked)
	assert.NotZero(t, first)

	require.NoError(t, os.Rename(other, one))
	replaced, err := filelock.IDOf(one)
	require.NoError(t, err)
	assert.Equal(t, second, replaced)
	open, err := filelock.IDOfOpen(int(file.Fd()))
	require.NoError(t, err)
	assert.Equal(t, first, open)

	_, err = filelock.IDOf(other)
	require.ErrorIs(t, err, os.ErrNotExist)
}
