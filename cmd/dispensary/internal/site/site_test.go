package site_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/site"
	"github.com/dispensary-go/dispensary/docs"
)

// root is where the tree is.
const root = "../../../.."

func newSite(t *testing.T) *site.Site {
	t.Helper()
	s, err := site.New(docs.Pages)
	require.NoError(t, err)
	return s
}

// markup is what matters of a page here.
type markup struct {
	ids, links []string // links, scripts, style sheets, pictures and where forms lead
	inline     []string // what a content security policy forbids
}

func parse(t *testing.T, page []byte) (m markup) {
	t.Helper()
	tokens := xml.NewDecoder(bytes.NewReader(page))
	tokens.Strict, tokens.AutoClose, tokens.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		token, err := tokens.Token()
		if err == io.EOF {
			return m
		}
		require.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Local == "style" {
			m.inline = append(m.inline, "style")
		}
		external := false
		for _, attribute := range start.Attr {
			switch name := attribute.Name.Local; {
			case name == "id":
				m.ids = append(m.ids, attribute.Value)
			case name == "href", name == "src", name == "action":
				m.links = append(m.links, attribute.Value)
				external = true
			case name == "style", strings.HasPrefix(name, "on"):
				m.inline = append(m.inline, name)
			}
		}
		if start.Name.Local == "script" && !external {
			m.inline = append(m.inline, "script")
		}
	}
}

// Every link of the site leads to a file of the site, and to an element of it. Beyond
// the site leads only the documentation of other packages, which nothing depends on.
func TestLinksOfTheSite(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	pages := map[string]markup{}
	for _, name := range s.Files() {
		if path.Ext(name) == ".html" {
			pages[name] = parse(t, s.File(name))
		}
	}
	require.Contains(t, pages, "index.html")
	for name, page := range pages {
		assert.Empty(t, page.inline, "%s has what the policy forbids", name)
		for _, link := range page.links {
			if strings.Contains(link, "://") {
				assert.True(t, strings.HasPrefix(link, "https://pkg.go.dev/"), "%s leads to %s", name, link)
				continue
			}
			target, fragment, _ := strings.Cut(link, "#")
			if target != "" {
				target = path.Join(path.Dir(name), target)
			} else {
				target = name
			}
			if !assert.NotNil(t, s.File(target), "%s leads to %s", name, link) || fragment == "" {
				continue
			}
			assert.True(t, slices.Contains(pages[target].ids, fragment), "%s leads to %s", name, link)
		}
	}
}

// Every link in the Markdown files of the repository leads to a file of it, and to a
// heading of that.
func TestLinksOfTheRepository(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.Join(root, "*.md"))
	require.NoError(t, err)
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, file := range append(names, more...) {
		for _, link := range linksOf(t, file) {
			if strings.Contains(link, "://") {
				continue
			}
			target, fragment, _ := strings.Cut(link, "#")
			target = filepath.Join(filepath.Dir(file), target)
			if strings.HasPrefix(link, "#") {
				target = file
			}
			_, err := os.Stat(target)
			if assert.NoError(t, err, "%s links to %s", file, link) && fragment != "" {
				assert.Contains(t, headingsOf(t, target), fragment, "%s links to %s", file, link)
			}
		}
	}
}

func parseMarkdown(t *testing.T, file string) (ast.Node, []byte) {
	t.Helper()
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	return goldmark.DefaultParser().Parse(text.NewReader(source)), source
}

func linksOf(t *testing.T, file string) (links []string) {
	t.Helper()
	tree, _ := parseMarkdown(t, file)
	require.NoError(t, ast.Walk(tree, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := node.(type) {
		case *ast.Link:
			if entering {
				links = append(links, string(n.Destination))
			}
		case *ast.Image:
			if entering {
				links = append(links, string(n.Destination))
			}
		}
		return ast.WalkContinue, nil
	}))
	return links
}

func headingsOf(t *testing.T, file string) (ids []string) {
	t.Helper()
	var anchors docs.Anchors
	tree, source := parseMarkdown(t, file)
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		if node.Kind() == ast.KindHeading {
			ids = append(ids, anchors.ID(string(node.Lines().Value(source))))
		}
	}
	return ids
}

// The first page, with all that it loads, is small.
func TestTheFirstPageIsSmall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	size := len(s.File("index.html"))
	for _, link := range parse(t, s.File("index.html")).links {
		if path.Ext(link) != ".html" && !strings.Contains(link, "#") {
			size += len(s.File(link))
		}
	}
	t.Logf("the first page has %d bytes", size)
	assert.Less(t, size, 150_000)
}

// The page of names has what can be looked for, in the order of the alphabet.
func TestNames(t *testing.T) {
	t.Parallel()
	s, err := site.New(fstest.MapFS{
		"README.md": {Data: []byte("# Start\n\nSee [the page](packages/parts/gear.md#type-wheel), [its source](../parts/gear/wheel.go) and [the package](../parts/gear).\n")},
		"packages/parts/gear.md": {Data: []byte("# Package parts/gear\n\nPackage gear turns.\n\n## Examples of use\n\nFirst.\n\n## Variables\n\n```go\nvar (\n\tErrJam = errors.New(\"jam\") // stuck\n)\n```\n\n" +
			"## Types\n\n### type Wheel\n\n```go\ntype Wheel struct {\n\tTeeth int\n}\n```\n\nWheel has \\*teeth.\n\n#### Wheel.Turn\n\n<!-- for writers -->\n")},
	})
	require.NoError(t, err)
	page := string(s.File("names.html"))
	at := -1
	for _, entry := range []string{
		`<a href="packages/parts/gear.html#variables">gear.ErrJam</a> <small>Package parts/gear</small>`,
		`<a href="packages/parts/gear.html#examples-of-use">Examples of use</a> <small>Package parts/gear: First.</small>`,
		`<a href="packages/parts/gear.html">parts/gear</a> <small>Package parts/gear: Package gear turns.</small>`,
		`<a href="index.html">Start</a>`,
		`<li data-also="Teeth"><a href="packages/parts/gear.html#type-wheel">gear.Wheel</a> <small>Package parts/gear: Wheel has *teeth.</small>`,
		`<a href="packages/parts/gear.html#wheelturn">gear.Wheel.Turn</a>`,
	} {
		next := strings.Index(page, entry)
		assert.Greater(t, next, at, "%s in\n%s", entry, page)
		at = next
	}
	start := string(s.File("index.html"))
	assert.Contains(t, start, `<a href="packages/parts/gear.html#type-wheel">the page</a>, its source and <a href="packages/parts/gear.html">the package</a>`)
	gear := string(s.File("packages/parts/gear.html"))
	assert.Contains(t, gear, `ErrJam = errors.New(<span class="s">&quot;jam&quot;</span>) <span class="c">// stuck</span>`)
	assert.NotContains(t, gear, "for writers")

	_, err = site.New(fstest.MapFS{"README.md": {Data: []byte("# Start\n\n[Away](away.md)\n")}})
	assert.ErrorContains(t, err, "README.md: a link leads to away.md, which is not there")
	_, err = site.New(fstest.MapFS{"README.md": {Data: []byte("Start\n")}})
	assert.ErrorContains(t, err, "no main heading")
}

func TestServing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, test := range []struct {
		method, path, kind string
		status             int
	}{
		{"GET", "/", "text/html; charset=utf-8", 200},
		{"HEAD", "/index.html", "text/html; charset=utf-8", 200},
		{"GET", "/style.css", "text/css; charset=utf-8", 200},
		{"GET", "/search.js", "text/javascript; charset=utf-8", 200},
		{"GET", "/icon.svg", "image/svg+xml", 200},
		{"GET", "/packages/oauth/tokens.html", "text/html; charset=utf-8", 200},
		{"GET", "/packages", "text/plain; charset=utf-8", 404},
		{"GET", "/../site.go", "text/plain; charset=utf-8", 404},
		{"POST", "/", "text/plain; charset=utf-8", 405},
	} {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, httptest.NewRequest(test.method, test.path, nil))
		assert.Equal(t, test.status, answer.Code, test.path)
		assert.Equal(t, test.kind, answer.Header().Get("Content-Type"), test.path)
		if test.status == 200 {
			assert.Equal(t, site.Policy, answer.Header().Get("Content-Security-Policy"))
		}
	}
}
