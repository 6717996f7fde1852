package main

import (
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clone is the folder of this repository.
const clone = "../.."

// written returns the contents of all files in a folder by path.
func written(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, root := map[string]string{}, os.DirFS(folder)
	require.NoError(t, fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, path)
		files[path] = string(content)
		return err
	}))
	return files
}

func TestInitWritesProgram(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "ehr")
	stdout, stderr := bare(t).ran("init", folder, "--library", clone)
	assert.Empty(t, stderr)
	assert.Equal(t, "Created in "+folder+`:
  .env.example
  .github/workflows/test.yml
  .gitignore
  go.mod
  home.go
  login.go
  main.go
  main_test.go
  webhooks.go

Next:
  go install -C ../.. ./cmd/dispensary
  cd `+folder+`
  go mod tidy
  go test ./...
  dispensary dev --redirect-uri http://127.0.0.1:8080/dispensary/callback --webhook http://127.0.0.1:8080/webhooks/us-sandbox -- go run .
`, stdout)
	files := written(t, folder)
	assert.Len(t, files, 9)
	assert.True(t, strings.HasPrefix(files["go.mod"], "module ehr\n"))
	assert.Contains(t, files["main.go"], `"127.0.0.1:8080"`)

	f := bare(t)
	f.rejected(folder+"/.env.example, "+folder+"/.github/workflows/test.yml, ", "init", folder, "--library", clone)
	assert.Equal(t, files, written(t, folder))
}

func TestInitKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "README.md"), []byte("own"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte("package own"), 0o600))
	before := written(t, folder)
	args := []string{"init", folder, "--module", "example.com/ehr", "--library", clone}
	stderr := bare(t).rejected("dispensary: "+folder+"/main.go exists, so init wrote no file: use another folder", args...)
	assert.NotContains(t, stderr, "README.md")
	assert.Equal(t, before, written(t, folder))

	require.NoError(t, os.Remove(filepath.Join(folder, "main.go")))
	bare(t).ran(args...)
	files := written(t, folder)
	assert.Equal(t, "own", files["README.md"])
	assert.True(t, strings.HasPrefix(files["go.mod"], "module example.com/ehr\n"))
}

func TestInitPrintsDocument(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "ehr")
	var made created
	bare(t).document("init", &made, folder, "--library", clone)
	assert.Equal(t, folder, made.Directory)
	assert.Equal(t, "ehr", made.Module)
	assert.Len(t, made.Files, 9)
	assert.Equal(t, []string{"go install -C ../.. ./cmd/dispensary", "cd " + folder}, made.Next[:2])
}

func TestInitRejectsArguments(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	before := written(t, folder)
	inside := func(name string) string { return filepath.Join(folder, name) }
	for want, args := range map[string][]string{
		"init needs the name of one folder, such as ehr":                            {},
		"init needs the name of one folder, such as ehr (":                          {"a", "b"},
		"--library is required, because the version of this command (devel) is not": {inside("ehr")},
		"--library: open ": {inside("ehr"), "--library", folder},
		`--module: malformed import path "my ehr": invalid char ' '`:                    {inside("ehr"), "--library", clone, "--module", "my ehr"},
		`--module: import path "net/ehr" belongs to Go`:                                 {inside("ehr"), "--library", clone, "--module", "net/ehr"},
		"--module is required, such as example.com/ehr, because the name of DIR is not": {inside("my ehr"), "--library", clone},
		file + "/.env.example: not a directory":                                         {file, "--library", clone},
		file + "/ehr/":                                                                  {file + "/ehr", "--library", clone},
	} {
		bare(t).rejected(want, append([]string{"init"}, args...)...)
	}
	assert.Equal(t, before, written(t, folder))
}

func TestInitReportsLostOutput(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "ehr")
	code := bare(t).program(nil, unwritable{}, io.Discard).run(t.Context(), []string{"init", folder, "--library", clone})
	assert.Equal(t, exitFailed, code)
	assert.Len(t, written(t, folder), 9)
}

func TestNextCommandsQuoteFolder(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "go mod tidy", nextCommands(".")[0])
	assert.Equal(t, "cd ../ehr", nextCommands("../ehr/")[0])
	for _, name := range []string{"ehr", "my ehr", "it's", "-P", "~", "$HOME", "a;b", `a\b`, "a*"} {
		parent := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(parent, name), 0o700))
		command := exec.CommandContext(t.Context(), "sh", "-c", nextCommands(name)[0]+" && pwd -P")
		command.Dir = parent
		out, err := command.Output()
		require.NoError(t, err, name)
		assert.Equal(t, name, filepath.Base(strings.TrimSpace(string(out))))
	}
}
