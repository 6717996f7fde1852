package docgen_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

var (
	code    = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)|(?m:^\[[^\]]+\]: (\S+)$)|src="([^"]+)"`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestPagesLinkToExistingTargets(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, pattern := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, page := range pages {
			for _, target := range relativeLinks(t, page) {
				checked++
				file, fragment, _ := strings.Cut(target, "#")
				file = filepath.Join(filepath.Dir(page), file)
				if strings.HasPrefix(target, "#") {
					file = page
				}
				_, err := os.Stat(file)
				if assert.NoError(t, err, "broken link in %s: %s", page, target) && fragment != "" && filepath.Ext(file) == ".md" {
					assert.True(t, slices.Contains(anchorsOf(t, file), fragment), "broken link in %s: %s", page, target)
				}
			}
		}
	}
	assert.Greater(t, checked, 100)
}

func relativeLinks(t *testing.T, page string) (targets []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
		if target := match[1] + match[2] + match[3]; !strings.Contains(target, "://") {
			targets = append(targets, target)
		}
	}
	return targets
}

func anchorsOf(t *testing.T, page string) (ids []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var anchors docgen.Anchors
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		ids = append(ids, anchors.ID(match[1]))
	}
	return ids
}

func TestReliabilityPageNamesTests(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(root, "docs")
	page, err := os.ReadFile(filepath.Join(folder, "reliability.md"))
	require.NoError(t, err)
	named := regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)\)`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, link := range named {
		source, err := os.ReadFile(filepath.Join(folder, link[2]))
		require.NoError(t, err)
		assert.Contains(t, string(source), "func "+link[1]+"(", link[2])
	}
}

func TestAnchorsMatchGitHub(t *testing.T) {
	t.Parallel()
	var anchors docgen.Anchors
	for _, test := range [][2]string{
		{"What the API leaves open", "what-the-api-leaves-open"},
		{"Client.Do", "clientdo"},
		{"Don't `panic`: a_b-c", "dont-panic-a_b-c"},
		{"Wheels", "wheels"},
		{" Wheels ", "wheels-1"},
		{"Wheels", "wheels-2"},
		{"Zoë", "zoë"},
	} {
		assert.Equal(t, test[1], anchors.ID(test[0]))
	}
}

// small is a tree with a library, a package in a nested module, and examples.
var small = map[string]string{
	"go.mod": "module " + docgen.Module + "\n",
	"library.go": `package dispensary

import "` + docgen.Module + `/internal/parts"

type Wheel[T any] struct {
	Teeth T
}

func (w Wheel[T]) Turn() error { return nil }

var ErrJam = parts.ErrJam
`,
	"internal/parts/parts.go": `package parts

import "errors"

var ErrJam = errors.New("jam")
`,
	"gear/gear.go":   "// Package gear turns a [dispensary.Wheel], a [dispensary.Cog], see [dispensary.Wheel.Teeth].\npackage gear\n\ntype Spinner interface{ Spin() }\n",
	"gear/go.mod":    "module " + docgen.Module + "/gear\n",
	"cmd/tool/go.go": "package main\n",
	"helper_test.go": `package dispensary_test

// made is a wheel.
func made() made2 { return made2{} }

type made2 struct{}

func (made2) Close() {}

var unused = "x"

func TestBuild(*testing.T) {}
`,
	"example_test.go": `package dispensary_test

import (
	"fmt"

	"` + docgen.Module + `"
	"` + docgen.Module + `/internal/parts"
)

// A wheel in use.
func ExampleWheel() {
	wheel := made()
	defer wheel.Close()
	unused := 1
	fmt.Println(dispensary.ErrJam, unused)
	// Output: jam 1
}

// Not for readers.
func Example_insideOut() {
	fmt.Println(parts.ErrJam)
	// Unordered output:
	// jam
}

func ExampleErrJam() {}
`,
}

func loadSmall(t *testing.T) *docgen.Tree {
	t.Helper()
	folder := t.TempDir()
	for name, text := range small {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
	tree, err := docgen.Load(folder)
	require.NoError(t, err)
	return tree
}

func TestFillReplacesGeneratedParts(t *testing.T) {
	t.Parallel()
	tree := loadSmall(t)
	page := "# Page\n\n<!-- tasks -->\n<!-- end -->\n\n## A group\n\n### Turn a wheel\n\nWith a [dispensary.Wheel], its [dispensary.Wheel.Teeth] and [dispensary.Wheel.Turn], a [gear.Spinner.Spin], not [sic] or [gear].\n\n" +
		"<!-- example: . ExampleWheel -->\nold\n<!-- end -->\n\n<!-- excerpt: . ExampleWheel -->\n\n```go\nwheel := made()\n…\nunused := 1\n```\n\n<!-- test: . TestBuild -->\n```go\nanything\n```\n" +
		"<!-- links -->\n<!-- end -->\n"
	filled, err := tree.Fill("docs/page.md", page)
	require.NoError(t, err)
	for _, part := range []string{
		"<!-- tasks -->\n\n- [A group](#a-group)\n  - [Turn a wheel](#turn-a-wheel)\n\n<!-- end -->",
		"<!-- example: . ExampleWheel -->\n\n```go\nwheel := made()\ndefer wheel.Close()\nunused := 1\nfmt.Println(dispensary.ErrJam, unused)\n```\n\nOutput:\n\n```text\njam 1\n```\n\n",
		"Packages: `dispensary`. Source: [example_test.go](../example_test.go).\n\n<!-- end -->",
		strings.ReplaceAll("<!-- links -->\n\n[dispensary.Wheel.Teeth]: MODULE#Wheel.Teeth\n[dispensary.Wheel.Turn]: MODULE#Wheel.Turn\n[dispensary.Wheel]: MODULE#Wheel\n"+
			"[gear.Spinner.Spin]: MODULE/gear#Spinner.Spin\n[gear]: MODULE/gear\n\n<!-- end -->", "MODULE", "https://pkg.go.dev/"+docgen.Module),
	} {
		assert.Contains(t, filled, part)
	}
	again, err := tree.Fill("docs/page.md", filled)
	require.NoError(t, err)
	assert.Equal(t, filled, again)

	for text, want := range map[string]string{
		"```go\nx := 1\n```\n":                                                         "Go block without an example, excerpt or test comment",
		"<!-- example: . ExampleGone -->\n<!-- end -->\n":                              "no ExampleGone in .",
		"<!-- example: gear TestX -->\n<!-- end -->\n":                                 "no TestX in gear",
		"<!-- example: . ExampleErrJam -->\n<!-- end -->\n":                            "has no Output comment",
		"<!-- example: . Example_insideOut -->\n<!-- end -->\n":                        "readers cannot import it",
		"<!-- test: . TestGone -->\n```go\nx := 1\n```\n":                              "no TestGone in .",
		"<!-- excerpt: . made -->\n```go\ntype made2 struct{}\n```\n":                  "no made in .",
		"<!-- excerpt: . ExampleWheel -->\n```go\nunused := 1\nwheel := made()\n```\n": "does not contain this line at this position: wheel := made()",
		"[dispensary.Wheels]\n\n<!-- links -->\n<!-- end -->\n":                        "no package declares [dispensary.Wheels]",
	} {
		_, err := tree.Fill("docs/page.md", "# Page\n\n"+text)
		assert.ErrorContains(t, err, want, strings.TrimSpace(text))
	}
}

func TestBrokenLinksNamesFileAndLink(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []string{"gear/gear.go: [dispensary.Cog]"}, loadSmall(t).BrokenLinks())
}
