package docgen_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/docgen"
)

var update = flag.Bool("update", false, "write the generated pages and parts of pages anew")

// root is where the tree is.
const root = "../.."

// The pages of the packages are what the code says, and no other pages are there.
func TestPackagePages(t *testing.T) {
	t.Parallel()
	pages, err := load(t).Pages()
	require.NoError(t, err)
	folder := filepath.Join(root, "docs")
	for name, want := range pages {
		file := filepath.Join(folder, name)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		got, err := os.ReadFile(file)
		require.NoError(t, err, "run this test with -update")
		assert.True(t, want == string(got), "docs/%s is not what the code says: run this test with -update", name) // Equal would print both
	}
	err = fs.WalkDir(os.DirFS(folder), "packages", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || pages[name] != "" {
			return err
		}
		if *update {
			return os.Remove(filepath.Join(folder, name))
		}
		return fmt.Errorf("docs/%s is of no package: run this test with -update", name)
	})
	require.NoError(t, err)
}

// Every exported type of every package has a heading of its own.
func TestEveryTypeIsOnAPage(t *testing.T) {
	t.Parallel()
	tree := load(t)
	pages, err := tree.Pages()
	require.NoError(t, err)
	count := 0
	for _, p := range tree.Public() {
		for _, kind := range p.Doc.Types {
			count++
			assert.Equal(t, 1, strings.Count(pages[p.Page()], "\n### type "+kind.Name+"\n"), "%s.%s", p.Folder, kind.Name)
		}
	}
	assert.Greater(t, count, 300)
}

// Examples in the pages that people write are those of the code, and every Go block is
// one of them.
func TestWrittenPages(t *testing.T) {
	t.Parallel()
	tree := load(t)
	names, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, file := range append(names, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		name, err := filepath.Rel(root, file)
		require.NoError(t, err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		want, err := tree.Fill(filepath.ToSlash(name), string(text))
		if !assert.NoError(t, err) {
			continue
		}
		if name == filepath.Join("docs", "cookbook.md") {
			assert.Equal(t, strings.Count(want, "\n### "), strings.Count(want, "\n<!-- example: "), "each task has an example")
		}
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
			continue
		}
		assert.True(t, want == string(text), "%s is not what the code says: run this test with -update", name)
	}
}

// tree is read once.
var tree = sync.OnceValues(func() (*docgen.Tree, error) { return docgen.Load(root) })

func load(t *testing.T) *docgen.Tree {
	t.Helper()
	loaded, err := tree()
	require.NoError(t, err)
	return loaded
}
