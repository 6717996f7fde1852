package starter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// namesIn returns the names of the entries of a folder.
func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestWriteCreatesFolders(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a", "b")
	require.NoError(t, Write(folder, map[string][]byte{"one": []byte("1"), "c/d/two": []byte("2")}))
	require.NoError(t, Write(folder, map[string][]byte{"c/d/three": []byte("3")}))
	assert.Equal(t, []string{"c", "one"}, namesIn(t, folder))
	assert.Equal(t, []string{"three", "two"}, namesIn(t, filepath.Join(folder, "c", "d")))
	assert.Equal(t, "2", read(t, filepath.Join(folder, "c", "d", "two")))
}

func TestWriteOverwritesNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "b"), []byte("own"), 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(folder, "c")))
	err := Write(folder, map[string][]byte{"a": nil, "b": nil, "c": nil})
	var exist *ExistError
	require.ErrorAs(t, err, &exist)
	assert.Equal(t, []string{filepath.Join(folder, "b"), filepath.Join(folder, "c")}, exist.Paths)
	assert.Equal(t, []string{"b", "c"}, namesIn(t, folder))
	assert.Equal(t, "own", read(t, filepath.Join(folder, "b")))
}

// A file and a folder of one name fail after the first file.
func TestWriteRemovesFilesAfterError(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	err := Write(filepath.Join(parent, "x", "y"), map[string][]byte{"a": nil, "a/b": nil})
	require.ErrorContains(t, err, "not a directory")
	assert.Empty(t, namesIn(t, parent))

	require.NoError(t, os.WriteFile(filepath.Join(parent, "file"), nil, 0o600))
	require.Error(t, Write(filepath.Join(parent, "file"), map[string][]byte{"a": nil}))
	require.Error(t, Write(filepath.Join(parent, "file", "x"), map[string][]byte{"a": nil}))
	assert.Equal(t, []string{"file"}, namesIn(t, parent))
}
