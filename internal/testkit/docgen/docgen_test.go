package docgen_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/docgen"
)

var update = flag.Bool("update", false, "write the generated parts of pages")

// root is the root folder of the repository.
const root = "../../.."

// Every Go block of a page is an example or an excerpt from the code.
func TestPagesMatchCode(t *testing.T) {
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
			shown := strings.Count(want, "\n<!-- example: ") + strings.Count(want, "\n<!-- command -->\n")
			assert.Equal(t, strings.Count(want, "\n### "), shown, "each task must have an example or a command")
		}
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
			continue
		}
		assert.True(t, want == string(text), "%s differs from the code: run this test with -update", name)
	}
}

// Agents read docs/llms.txt as a whole, so it is at most 40,000 bytes long.
func TestLLMsFile(t *testing.T) {
	t.Parallel()
	cookbook, err := os.ReadFile(filepath.Join(root, "docs", "cookbook.md"))
	require.NoError(t, err)
	want := load(t).LLMs(string(cookbook))
	assert.LessOrEqual(t, len(want), 40_000)
	assert.Equal(t, strings.Count(string(cookbook), "\n### "), strings.Count(want[strings.Index(want, "\n## Tasks"):], "\n- "))
	file := filepath.Join(root, "docs", "llms.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, want == string(text), "docs/llms.txt is not up to date: run this test with -update")
}

func TestCommentsLinkToExistingNames(t *testing.T) {
	t.Parallel()
	assert.Empty(t, load(t).BrokenLinks())
}

// tree loads the repository once for all tests.
var tree = sync.OnceValues(func() (*docgen.Tree, error) { return docgen.Load(root) })

func load(t *testing.T) *docgen.Tree {
	t.Helper()
	loaded, err := tree()
	require.NoError(t, err)
	return loaded
}
