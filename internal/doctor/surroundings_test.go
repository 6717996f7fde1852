package doctor_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/doctor"
)

func TestExposedSecretFilesCauseWarning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such permissions")
	}
	folder := t.TempDir()
	for above := folder; above != filepath.Dir(above); above = filepath.Dir(above) {
		if about, err := os.Stat(above); err == nil && about.Mode().Perm()&0o011 == 0 {
			t.Skip("others cannot enter ", above)
		}
	}
	file := func(name string, mode os.FileMode) string {
		name = filepath.Join(folder, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.Chmod(name, mode))
		return name
	}
	run := func(files ...string) doctor.Row {
		config := doctor.Config{SecretFiles: files}
		config.OAuth.Site.Environment = newFixture(t).config.OAuth.Site.Environment
		report, err := doctor.Run(t.Context(), config)
		require.NoError(t, err)
		return row(t, report, "secret files")
	}
	closed := []string{file("a", 0o600), file("b", 0o640), file("c", 0o400), filepath.Join(folder, "absent")}
	private := file("private/d", 0o666)
	require.NoError(t, os.Chmod(filepath.Dir(private), 0o700))
	assert.Equal(t, doctor.StatusPass, run(append(closed, private)...).Status)
	assert.Equal(t, doctor.StatusSkip, run().Status)
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(file("it's", 0o604), link))
	for _, open := range []string{file("e", 0o644), file("f", 0o660), file("g", 0o602), link} {
		got := run(append(closed, open)...)
		assert.Equal(t, doctor.StatusWarn, got.Status, open)
		assert.Contains(t, got.Seen, open)
		assert.Len(t, got.Commands, 1)
	}
	assert.Equal(t, []string{"chmod 600 '" + filepath.Join(folder, `it'\''s`) + "'"}, run(filepath.Join(folder, "it's")).Commands)
}
