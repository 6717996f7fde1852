package docgen_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/docgen"
)

// small is a tree with a library, a package that its aliases stand for, and examples.
var small = map[string]string{
	"go.mod": "module " + docgen.Module + "\n",
	"library.go": `// Package dispensary is small.
//
// # Wheels
//
// A [Wheel] turns, see [Wheel.Turn] and [Wheel.Teeth]; [gear.Spin] turns by itself, at
// http://127.0.0.1/gear.
package dispensary

import "` + docgen.Module + `/internal/parts"

// Wheel turns.
type Wheel = parts.Wheel[int]

// ErrJam: it does not.
var ErrJam = parts.ErrJam
`,
	"internal/parts/parts.go": `// Package parts holds parts.
package parts

import "errors"

// Wheel has teeth.
type Wheel[T any] struct {
	Teeth T // of it
	grease bool
}

// Turn turns it by a tooth. It may jam.
func (w Wheel[T]) Turn() error { return nil }

// ErrJam says no.
var ErrJam = errors.New("jam")
`,
	"gear/gear.go": `// Package gear is a module of its own.
package gear

// Spin spins.
func Spin() {}
`,
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

func loadSmall(t *testing.T, more map[string]string) *docgen.Tree {
	t.Helper()
	folder := t.TempDir()
	write := func(files map[string]string) {
		for name, text := range files {
			require.NoError(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
		}
	}
	write(small)
	write(more)
	tree, err := docgen.Load(folder)
	require.NoError(t, err)
	return tree
}

// Aliases show what they stand for, comments link to what has a page, and examples come
// with what they need.
func TestPageOfAPackage(t *testing.T) {
	t.Parallel()
	pages, err := loadSmall(t, nil).Pages()
	require.NoError(t, err)
	require.Len(t, pages, 2)
	page := pages["packages/dispensary.md"]
	for _, part := range []string{
		"# Package dispensary\n",
		"A [Wheel](#type-wheel) turns, see [Wheel.Turn](#type-wheel) and [Wheel.Teeth](#type-wheel); [gear.Spin](gear.md#func-spin) turns by itself, at `http://127.0.0.1/gear`.",
		"## Wheels\n",
		"## Example: inside out\n\nNot for readers.\n\n```go\nfmt.Println(parts.ErrJam)\n```\n\nOutput, in any order:\n\n```text\njam\n```\n",
		"It stands for parts.Wheel:\n\n```go\ntype Wheel[T any] struct {\n\tTeeth T // of it\n\t// contains filtered or unexported fields\n}\n```\n\n```go\n// Turn turns it by a tooth.\nfunc (w Wheel[T]) Turn() error\n```\n",
		"#### Example of Wheel\n\nA wheel in use.\n\n```go\nwheel := made()\ndefer wheel.Close()\nunused := 1\nfmt.Println(dispensary.ErrJam, unused)\n```\n\n<details><summary>Functions and types that it uses</summary>\n\n```go\n" +
			"// made is a wheel.\nfunc made() made2 { return made2{} }\n\ntype made2 struct{}\n\nfunc (made2) Close() {}\n```\n\n</details>\n\nOutput:\n\n```text\njam 1\n```\n",
	} {
		assert.Contains(t, page, part)
	}
	assert.Contains(t, pages["packages/gear.md"], "A module of its own: `go get "+docgen.Module+"/gear`")

	_, err = loadSmall(t, map[string]string{"gear/more.go": "package gear\n\n// Fast is like [dispensary.Slow].\nfunc Fast() {}\n"}).Pages()
	assert.EqualError(t, err, "gear: a comment links to dispensary.Slow, which does not exist")
}

func TestFill(t *testing.T) {
	t.Parallel()
	tree := loadSmall(t, nil)
	page := "# Page\n\n<!-- tasks -->\n<!-- end -->\n\n## A group\n\n### Turn a wheel\n\nWith a [dispensary.Wheel], not [sic] or [gear].\n\n" +
		"<!-- example: . ExampleWheel -->\nold\n<!-- end -->\n\n<!-- excerpt: . ExampleWheel -->\n\n```go\nwheel := made()\n…\nunused := 1\n```\n\n<!-- test: . TestBuild -->\n```go\nanything\n```\n" +
		"<!-- packages -->\n<!-- end -->\n<!-- links -->\n<!-- end -->\n"
	filled, err := tree.Fill("docs/page.md", page)
	require.NoError(t, err)
	for _, part := range []string{
		"<!-- tasks -->\n\n- [A group](#a-group)\n  - [Turn a wheel](#turn-a-wheel)\n\n<!-- end -->",
		"<!-- example: . ExampleWheel -->\n\n```go\nwheel := made()\n",
		"Packages: [dispensary](packages/dispensary.md). Source: [example_test.go](../example_test.go).\n\n<!-- end -->",
		"| [gear](packages/gear.md) | Package gear is a module of its own. *A module of its own.* |\n",
		"<!-- links -->\n\n[dispensary.Wheel]: packages/dispensary.md#type-wheel\n[gear]: packages/gear.md\n\n<!-- end -->",
	} {
		assert.Contains(t, filled, part)
	}
	again, err := tree.Fill("docs/page.md", filled)
	require.NoError(t, err)
	assert.Equal(t, filled, again)

	for text, want := range map[string]string{
		"```go\nx := 1\n```\n":                                                         "a Go block is no example",
		"<!-- example: . ExampleGone -->\n<!-- end -->\n":                              "there is no ExampleGone in .",
		"<!-- example: gear TestX -->\n<!-- end -->\n":                                 "there is no TestX in gear",
		"<!-- example: . ExampleErrJam -->\n<!-- end -->\n":                            "has no output that is checked",
		"<!-- example: . Example_insideOut -->\n<!-- end -->\n":                        "which readers cannot import",
		"<!-- test: . TestGone -->\n```go\nx := 1\n```\n":                              "there is no TestGone in .",
		"<!-- excerpt: . made -->\n```go\ntype made2 struct{}\n```\n":                  "there is no made in .",
		"<!-- excerpt: . ExampleWheel -->\n```go\nunused := 1\nwheel := made()\n```\n": "no such line, or not there: wheel := made()",
		"[dispensary.Wheels]\n\n<!-- links -->\n<!-- end -->\n":                        "there is no [dispensary.Wheels]",
	} {
		_, err := tree.Fill("docs/page.md", "# Page\n\n"+text)
		assert.ErrorContains(t, err, want, strings.TrimSpace(text))
	}
}
