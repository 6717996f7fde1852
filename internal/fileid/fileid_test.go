//go:build unix

package fileid_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/fileid"
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

	first, err := fileid.Of(one)
	require.NoError(t, err)
	second, err := fileid.Of(other)
	require.NoError(t, err)
	linked, err := fileid.Of(link)
	require.NoError(t, err)
	assert.NotEqual(t, first, second)
	assert.Equal(t, first, linked)
	assert.NotZero(t, first)

	require.NoError(t, os.Rename(other, one))
	replaced, err := fileid.Of(one)
	require.NoError(t, err)
	assert.Equal(t, second, replaced)
	open, err := fileid.OfOpen(int(file.Fd()))
	require.NoError(t, err)
	assert.Equal(t, first, open)

	_, err = fileid.Of(other)
	require.ErrorIs(t, err, os.ErrNotExist)
}
