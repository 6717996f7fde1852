package starter

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"

	"github.com/dispensary-go/dispensary/integration"
	_ "github.com/dispensary-go/dispensary/integration/sqlite"
	"github.com/dispensary-go/dispensary/internal/environ"
)

// repository is the folder of this repository.
const repository = "../../../.."

// released is a program that uses a release.
var released = Config{Module: "example.com/ehr", Version: "0.1.0"}

func filesOf(t *testing.T, c Config) map[string][]byte {
	t.Helper()
	files, err := c.Files()
	require.NoError(t, err)
	return files
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(content)
}

func TestFilesEqualProgramFolder(t *testing.T) {
	t.Parallel()
	files := filesOf(t, released)
	delete(files, "go.mod")
	program := os.DirFS("program")
	require.NoError(t, fs.WalkDir(program, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		want, err := fs.ReadFile(program, path)
		assert.Equal(t, string(want), string(files[path]), path)
		delete(files, path)
		return err
	}))
	assert.Empty(t, files)
}

func TestProgramImportsNoInternalPackage(t *testing.T) {
	t.Parallel()
	for path, content := range filesOf(t, released) {
		if filepath.Ext(path) != ".go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ImportsOnly)
		require.NoError(t, err)
		for _, imported := range file.Imports {
			assert.NotContains(t, imported.Path.Value, "/internal/", path)
		}
	}
}

func TestGoModRequiresRelease(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `module example.com/ehr

go 1.26.0

require (
	github.com/dispensary-go/dispensary v0.1.0
	github.com/dispensary-go/dispensary/integration/sqlite v0.1.0
)
`, string(filesOf(t, released)["go.mod"]))
	_, err := Config{Module: "ehr", Version: "1.0.0-rc.1"}.Files()
	require.NoError(t, err)
	for _, version := range []string{"devel", "0.1.0+dirty", "0.0.0-20260302090000-0123456789ab", "0.1.1-0.20260302090000-0123456789ab"} {
		_, err := Config{Module: "ehr", Version: version}.Files()
		assert.ErrorIs(t, err, ErrNotReleased, version)
	}
}

func TestGoVersionEqualsLibrary(t *testing.T) {
	t.Parallel()
	file, err := modfile.Parse("go.mod", []byte(read(t, filepath.Join(repository, "go.mod"))), nil)
	require.NoError(t, err)
	assert.Equal(t, file.Go.Version, goVersion)
}

func TestGoModReplacesModulesOfClone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, Write(folder, filesOf(t, Config{Module: "ehr", Clone: repository})))
	// With the sums of the clone, Go needs no network.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.sum"), []byte(read(t, "../../go.sum")), 0o600))
	command := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-deps", "-test", "./...")
	command.Dir, command.Env = folder, append(os.Environ(), "GOWORK=off")
	command.Stderr = os.Stderr
	packages, err := command.Output()
	require.NoError(t, err)
	assert.Contains(t, string(packages), library+"/oauth/sqlstore\n")

	for clone, want := range map[string]string{"none": "none", filepath.Join(repository, "examples"): "examples"} {
		_, err := Config{Module: "ehr", Clone: clone}.Files()
		assert.ErrorContains(t, err, want)
	}
	other := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(other, "integration", "sqlite"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "integration", "sqlite", "go.mod"), []byte("module example.com/integration/sqlite\n"), 0o600))
	_, err = Config{Module: "ehr", Clone: other}.Files()
	assert.EqualError(t, err, other+" is not a clone of "+library)
}

func TestCheckModuleRejectsInvalidPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"ehr", "example.com/ehr", "example.com/ehr/v2", "github.com/Example/EHR", "test"} {
		assert.NoError(t, CheckModule(path), path)
	}
	for path, want := range map[string]string{
		"":                        "empty string",
		"my ehr":                  "invalid char ' '",
		"/":                       "trailing slash",
		"-ehr":                    "leading dash",
		"example.com/ehr/v1":      "invalid major version",
		"example.com/../ehr":      "invalid path element",
		"https://example.com/ehr": "double slash",
		"main":                    "belongs to Go",
		"net/ehr":                 "belongs to Go",
	} {
		assert.ErrorContains(t, CheckModule(path), want, path)
	}
	std, err := exec.CommandContext(t.Context(), "go", "list", "std").Output()
	require.NoError(t, err)
	for path := range strings.FieldsSeq(string(std)) {
		assert.Error(t, CheckModule(path), path)
	}
}

// The table of settings is unexported, so the test parses the source.
func TestEnvExampleListsAllVariables(t *testing.T) {
	t.Parallel()
	var want []string
	for _, found := range regexp.MustCompile(`(?m)^\t\{"(\w+)", "(.*?)", (?:true|false), func\(([ac]) `).FindAllStringSubmatch(read(t, filepath.Join(repository, "integration", "load.go")), -1) {
		prefix := map[string]string{"a": "DISPENSARY_US_SANDBOX_", "c": "DISPENSARY_"}[found[3]]
		want = append(want, prefix+strings.ToUpper(found[1]))
	}
	var got []string
	lines := strings.Split(string(filesOf(t, released)[".env.example"]), "\n")
	for i, line := range lines {
		if name, _, found := strings.Cut(line, "="); found && !strings.HasPrefix(line, "#") {
			got = append(got, name)
			assert.Regexp(t, `^# [A-Z].*[^.]$`, lines[i-1], "%s has one line of explanation", name)
		}
	}
	assert.ElementsMatch(t, want, got)

	_, err := integration.Load(nil, filepath.Join("program", ".env.example"))
	for _, problem := range environ.Errors(err) {
		assert.Regexp(t, `is empty`, problem.Error())
	}
}

func TestWorkflowUsesActionsOfThisRepository(t *testing.T) {
	t.Parallel()
	own := read(t, filepath.Join(repository, ".github", "workflows", "ci.yml"))
	uses := regexp.MustCompile(`uses: \S+`).FindAllString(string(filesOf(t, released)[".github/workflows/test.yml"]), -1)
	assert.NotEmpty(t, uses)
	for _, action := range uses {
		assert.Contains(t, own, action)
	}
}

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
