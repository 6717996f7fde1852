package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const version = "v0.1.0"

// repository contains a root, a library, a command with both, and an unreleased module.
var repository = map[string]string{
	"LICENSE":          "free\n",
	"go.mod":           "module example.com/repository\n\ngo 1.26.0\n",
	"repository.go":    "package repository\n\nconst Name = \"repository\"\n",
	"store/go.mod":     "module example.com/repository/store\n\ngo 1.26.0\n\nrequire example.com/repository v0.0.0\n\nreplace example.com/repository => ../\n",
	"store/store.go":   "package store\n\nimport \"example.com/repository\"\n\nconst Name = repository.Name + \" store\"\n",
	"examples/go.mod":  "module example.com/repository/examples\n\ngo 1.26.0\n\nrequire example.com/repository v0.0.0\n\nreplace example.com/repository => ../\n",
	"examples/main.go": "package main\n\nimport \"example.com/repository\"\n\nfunc main() { println(repository.Name) }\n",
	"cmd/tool/go.mod": `module example.com/repository/cmd/tool

go 1.26.0

require (
	example.com/repository v0.0.0
	example.com/repository/store v0.0.0
)

replace (
	example.com/repository => ../../
	example.com/repository/store => ../../store
)
`,
	"cmd/tool/main.go": "package main\n\nimport (\n\t\"example.com/repository\"\n\t\"example.com/repository/store\"\n)\n\nfunc main() { print(repository.Name, \", \", store.Name) }\n",
}

// newCheckout commits the repository with changed files and returns its folder.
func newCheckout(t *testing.T, changed map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for _, files := range []map[string]string{repository, changed} {
		for name, text := range files {
			name = filepath.Join(folder, name)
			require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
			require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
		}
	}
	for _, args := range []string{"init --quiet", "config user.name Test", "config user.email test@example.com", "add --all", "commit --quiet --message repository"} {
		in(t, folder, strings.Fields(args)...)
	}
	return folder
}

// in returns the output of git.
func in(t *testing.T, folder string, args ...string) string {
	t.Helper()
	out, err := git(folder, args...)
	require.NoError(t, err)
	return out
}

func TestReleaseInstallsFromProxy(t *testing.T) {
	t.Parallel()
	checkout, proxy, elsewhere := newCheckout(t, nil), t.TempDir(), t.TempDir()
	var out strings.Builder
	require.NoError(t, run(filepath.Join(checkout, "store"), version, proxy, &out))

	assert.Equal(t, "cmd/tool/v0.1.0\nstore/v0.1.0\nv0.1.0", in(t, checkout, "tag"))
	head := in(t, checkout, "rev-parse", "HEAD")
	assert.Equal(t, head, in(t, checkout, "rev-parse", "v0.1.0"))
	assert.Equal(t, head, in(t, checkout, "rev-parse", "store/v0.1.0"))
	assert.Equal(t, head, in(t, checkout, "rev-parse", "cmd/tool/v0.1.0^"))
	for name, text := range repository {
		if strings.HasSuffix(name, "go.mod") {
			assert.Equal(t, strings.ReplaceAll(text, "v0.0.0", version), in(t, checkout, "show", "HEAD:"+name)+"\n")
		}
	}
	command, _, _ := strings.Cut(strings.ReplaceAll(repository["cmd/tool/go.mod"], "v0.0.0", version), "\nreplace")
	assert.Equal(t, command, in(t, checkout, "show", "cmd/tool/v0.1.0:cmd/tool/go.mod")+"\n")
	assert.Empty(t, in(t, checkout, "status", "--porcelain"))
	assert.NotContains(t, in(t, checkout, "worktree", "list"), "\n")
	assert.Regexp(t, `(?s)push --atomic origin HEAD v0.1.0 store/v0.1.0\n.*repository@v0.1.0.*push origin cmd/tool/v0.1.0\n`, out.String())

	// The checksums of the tag are valid. Other programs need neither them nor the checkout.
	in(t, checkout, "checkout", "--quiet", "cmd/tool/v0.1.0")
	runGo := func(folder string, args ...string) {
		command := exec.Command("go", args...)
		command.Dir = folder
		command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS="+os.Getenv("GOFLAGS")+" -modcacherw", "GOSUMDB=off", "GOPROXY=file://"+proxy, "GOMODCACHE="+filepath.Join(elsewhere, "modules"), "GOBIN="+elsewhere)
		said, err := command.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}
	runGo(filepath.Join(checkout, "cmd/tool"), "build", "-o", filepath.Join(elsewhere, "tagged"))
	runGo(elsewhere, "install", "example.com/repository/cmd/tool@v0.1.0")
	for _, name := range []string{"tagged", "tool"} {
		said, err := exec.Command(filepath.Join(elsewhere, name)).CombinedOutput()
		require.NoError(t, err)
		assert.Equal(t, "repository, repository store", string(said))
	}
	assert.FileExists(t, filepath.Join(elsewhere, "modules/example.com/repository/store@v0.1.0/LICENSE"))
}

func TestCheckRejectsWhatImportersCannotUse(t *testing.T) {
	t.Parallel()
	r := release{version: version, tree: newCheckout(t, nil)}
	require.NoError(t, r.readModules())
	store, command := r.sibling("example.com/repository/store"), r.sibling("example.com/repository/cmd/tool")
	require.EqualError(t, r.check(store), "example.com/repository/store requires example.com/repository@v0.0.0")
	require.NoError(t, r.requireVersion(store))
	require.NoError(t, r.check(store))
	require.NoError(t, r.requireVersion(command))
	require.EqualError(t, r.check(command), "example.com/repository/cmd/tool replaces example.com/repository")

	lab := strings.ReplaceAll(repository["store/go.mod"], "repository v0.0.0", "repository/examples v0.1.0")
	require.NoError(t, os.WriteFile(filepath.Join(r.tree, "store/go.mod"), []byte(lab), 0o644))
	require.EqualError(t, r.check(store), "example.com/repository/store requires example.com/repository/examples, which is not released")
}

func TestReleaseRejectsCheckout(t *testing.T) {
	t.Parallel()
	fork := "\nreplace example.com/fork => ./fork\n"
	for name, c := range map[string]struct {
		changed map[string]string
		git     string
		version string
		want    string
	}{
		"short version":     {nil, "status", "v0.1", "v0.1 is not a version such as v1.2.3"},
		"change":            {nil, "rm --quiet --cached LICENSE", version, "the checkout has uncommitted changes"},
		"tag":               {nil, "tag store/v0.1.0", version, "the tag store/v0.1.0 exists"},
		"untidy module":     {map[string]string{"examples/main.go": "package main\n"}, "status", version, "go mod tidy -diff of example.com/repository/examples: exit status 1"},
		"fork in a library": {map[string]string{"store/go.mod": repository["store/go.mod"] + fork}, "status", version, "example.com/repository/store replaces example.com/fork"},
		"fork in a command": {map[string]string{"cmd/tool/go.mod": repository["cmd/tool/go.mod"] + fork}, "status", version, "example.com/repository/cmd/tool replaces example.com/fork"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkout := newCheckout(t, c.changed)
			in(t, checkout, strings.Fields(c.git)...)
			before := in(t, checkout, "show-ref", "--head")
			require.ErrorContains(t, run(checkout, c.version, "", io.Discard), c.want)
			assert.Equal(t, before, in(t, checkout, "show-ref", "--head"))
			assert.NotContains(t, in(t, checkout, "worktree", "list"), "\n")
		})
	}
}
