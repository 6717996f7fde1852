package docgen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/docgen"
)

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
