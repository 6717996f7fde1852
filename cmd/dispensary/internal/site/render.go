package site

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/dispensary-go/dispensary/docs"
)

// page is a page of the site, as its template sees it.
type page struct {
	Name     string // of the file
	Title    string
	Body     template.HTML
	Contents []heading // of the second and third level
	Index    []letter  // of the page with all names

	entries []entry // for the page with all names
}

type heading struct {
	Level    int
	ID, Text string
}

// Root leads from the page to the first one.
func (p *page) Root() string { return strings.Repeat("../", strings.Count(p.Name, "/")) }

// Here says whether the page belongs to an entry of the menu.
func (p *page) Here(name string) bool { return p.Name == name }

// markdown renders pages.
type markdown struct {
	goldmark.Markdown
	pages fs.FS
}

func newRenderer(pages fs.FS) *markdown {
	return &markdown{pages: pages, Markdown: goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe(), renderer.WithNodeRenderers(util.Prioritized(blocks{}, 0))), // the pages are our own
	)}
}

// ids gives headings the ids that they have on GitHub.
type ids struct{ docs.Anchors }

func (i *ids) Generate(text []byte, _ ast.NodeKind) []byte { return []byte(i.ID(string(text))) }
func (*ids) Put([]byte)                                    {}

// render renders a page.
func (m *markdown) render(name string) (*page, error) {
	source, err := fs.ReadFile(m.pages, name)
	if err != nil {
		return nil, err
	}
	tree := m.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{}))))
	if err := m.relink(tree, name); err != nil {
		return nil, err
	}
	p := &page{Name: htmlName(name)}
	for node := tree.FirstChild(); node != nil; node = node.NextSibling() {
		if h, ok := node.(*ast.Heading); ok {
			p.add(h, source)
		}
	}
	if p.Title == "" {
		return nil, errors.New("the page has no main heading")
	}
	var out bytes.Buffer
	if err := m.Renderer().Render(&out, source, tree); err != nil {
		return nil, err
	}
	p.Body = template.HTML(out.String())
	return p, nil
}

// add notes a heading for the table of contents and the index of names.
func (p *page) add(node *ast.Heading, source []byte) {
	h := heading{Level: node.Level, Text: string(textOf(node, source))}
	if id, ok := node.AttributeString("id"); ok {
		h.ID = string(id.([]byte))
	}
	if h.Level == 1 {
		p.Title = h.Text
	}
	if h.Level == 2 || h.Level == 3 {
		p.Contents = append(p.Contents, h)
	}
	p.index(h, node, source)
}

// textOf is the text in a node, without its markup.
func textOf(node ast.Node, source []byte) []byte {
	var out []byte
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			out = append(out, util.UnescapePunctuations(n.Segment.Value(source))...)
			if n.SoftLineBreak() {
				out = append(out, ' ')
			}
		case *ast.String:
			out = append(out, n.Value...)
		}
		return ast.WalkContinue, nil
	})
	return out
}

// htmlName is the file of the site that a Markdown page becomes.
func htmlName(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// relink makes links lead to pages of the site, and takes the others out: what is in the
// repository and has no page cannot be reached without a network.
func (m *markdown) relink(tree ast.Node, name string) error {
	var links []*ast.Link
	_ = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if link, ok := n.(*ast.Link); ok && entering {
			links = append(links, link)
		}
		return ast.WalkContinue, nil
	})
	for _, link := range links {
		target := string(link.Destination)
		if strings.Contains(target, "://") || strings.HasPrefix(target, "#") {
			continue
		}
		target, fragment, _ := strings.Cut(target, "#")
		found, err := m.find(path.Join(path.Dir(name), target))
		if err != nil {
			return err
		}
		if found == "" {
			unlink(link)
			continue
		}
		relative, err := filepath.Rel(path.Dir(name), htmlName(found))
		if err != nil {
			return err
		}
		link.Destination = []byte(filepath.ToSlash(relative))
		if fragment != "" {
			link.Destination = append(link.Destination, "#"+fragment...)
		}
	}
	return nil
}

// find returns the Markdown page that a link to a file of the repository means, and ""
// if the file has none. The file is named from the folder of the pages.
func (m *markdown) find(file string) (string, error) {
	if folder, outside := strings.CutPrefix(file, "../"); outside {
		page := "packages/" + folder + ".md"
		if _, err := fs.Stat(m.pages, page); err != nil {
			return "", nil
		}
		return page, nil
	}
	if _, err := fs.Stat(m.pages, file); err != nil {
		return "", fmt.Errorf("a link leads to %s, which is not there", file)
	}
	return file, nil
}

// unlink leaves the text of a link.
func unlink(link *ast.Link) {
	parent := link.Parent()
	for child := link.FirstChild(); child != nil; child = link.FirstChild() {
		parent.InsertBefore(parent, link, child)
	}
	parent.RemoveChild(parent, link)
}
