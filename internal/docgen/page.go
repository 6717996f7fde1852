package docgen

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/docs"
)

// Pages returns the pages of the packages, by their names below docs.
func (t *Tree) Pages() (map[string]string, error) {
	pages := map[string]string{}
	for _, p := range t.Public() {
		w := &pageWriter{tree: t, pkg: p}
		w.page()
		if w.err != nil {
			return nil, fmt.Errorf("%s: %w", p.Folder, w.err)
		}
		pages[p.Page()] = w.out.String()
	}
	return pages, nil
}

// pageWriter writes the page of a package. The first error is kept.
type pageWriter struct {
	tree *Tree
	pkg  *Package
	out  strings.Builder
	err  error
}

func (w *pageWriter) line(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

func (w *pageWriter) heading(level int, text string) {
	w.line("%s %s\n", strings.Repeat("#", level), text)
}

func (w *pageWriter) page() {
	p := w.pkg.Doc
	w.line("<!-- Written by internal/docgen from the code: cd internal/docgen && go test . -update -->\n")
	if p.Name == "main" {
		w.heading(1, "Command "+path.Base(w.pkg.Folder))
	} else {
		w.heading(1, "Package "+w.pkg.title())
		w.line("```go\nimport %q\n```\n", p.ImportPath)
	}
	if w.pkg.Module != "." {
		w.line("A module of its own: `go get %s`\n", path.Join(Module, w.pkg.Module))
	}
	w.text(p.Doc, 2)
	w.examples(2, "Example", p.Examples)
	if p.Name == "main" {
		return
	}
	w.values(2, "Constants", p.Consts)
	w.values(2, "Variables", p.Vars)
	if len(p.Funcs) > 0 {
		w.heading(2, "Functions")
		for _, f := range p.Funcs {
			w.function(3, "func "+f.Name, f)
		}
	}
	if len(p.Types) > 0 {
		w.heading(2, "Types")
		for _, kind := range p.Types {
			w.kind(kind)
		}
	}
}

func (w *pageWriter) kind(kind *doc.Type) {
	w.heading(3, "type "+kind.Name)
	w.code(kind.Decl)
	w.text(kind.Doc, 4)
	w.target(kind)
	for _, group := range slices.Concat(kind.Consts, kind.Vars) {
		w.code(group.Decl)
		w.text(group.Doc, 4)
	}
	w.examples(4, "Example of "+kind.Name, kind.Examples)
	for _, f := range kind.Funcs {
		w.function(4, "func "+f.Name, f)
	}
	for _, method := range kind.Methods {
		w.function(4, kind.Name+"."+method.Name, method)
	}
}

// target shows the fields and methods of what an alias stands for.
func (w *pageWriter) target(alias *doc.Type) {
	p, kind := w.tree.target(w.pkg, alias)
	if kind == nil {
		return
	}
	name := p.Doc.Name + "." + kind.Name
	if w.tree.public(p.Doc.ImportPath) != nil {
		w.line("It stands for [%s](%s):\n", name, w.link(p, kind.Name))
	} else {
		w.line("It stands for %s:\n", name)
	}
	w.code(kind.Decl)
	var signatures []string
	for _, f := range kind.Methods {
		text, err := w.format(f.Decl)
		w.err = cmp.Or(w.err, err)
		if comment := p.Doc.Synopsis(f.Doc); comment != "" {
			text = "// " + comment + "\n" + text
		}
		signatures = append(signatures, text)
	}
	if len(signatures) > 0 {
		w.line("```go\n%s\n```\n", strings.Join(signatures, "\n\n"))
	}
}

// target returns the type of this tree that an alias stands for, through other
// aliases, and nil if it is none.
func (t *Tree) target(p *Package, alias *doc.Type) (*Package, *doc.Type) {
	spec, ok := alias.Decl.Specs[0].(*ast.TypeSpec)
	if !ok || !spec.Assign.IsValid() {
		return nil, nil
	}
	expression := spec.Type
	switch generic := expression.(type) {
	case *ast.IndexExpr:
		expression = generic.X
	case *ast.IndexListExpr:
		expression = generic.X
	}
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return nil, nil
	}
	name := selector.X.(*ast.Ident).Name
	for importPath := range p.imports(t.files.Position(spec.Pos()).Filename) {
		target := t.byPath[importPath]
		if target == nil || target.Doc.Name != name {
			continue
		}
		for _, kind := range target.Doc.Types {
			if kind.Name == selector.Sel.Name {
				if further, last := t.target(target, kind); last != nil {
					return further, last
				}
				return target, kind
			}
		}
	}
	return nil, nil
}

func (w *pageWriter) values(level int, title string, groups []*doc.Value) {
	if len(groups) == 0 {
		return
	}
	w.heading(level, title)
	for _, group := range groups {
		w.code(group.Decl)
		w.text(group.Doc, level+1)
	}
}

func (w *pageWriter) function(level int, title string, f *doc.Func) {
	w.heading(level, title)
	w.code(f.Decl)
	w.text(f.Doc, level+1)
	w.examples(level+1, "Example of "+strings.TrimPrefix(title, "func "), f.Examples)
}

func (w *pageWriter) examples(level int, title string, examples []*doc.Example) {
	for _, shown := range examples {
		e := w.tree.Example(w.pkg.Folder, "Example"+shown.Name)
		if e == nil {
			continue
		}
		text := title
		if shown.Suffix != "" {
			text += ": " + words(shown.Suffix)
		}
		w.heading(level, text)
		w.text(shown.Doc, level+1)
		w.out.WriteString(e.markdown())
	}
}

// words takes the suffix of an example's name apart: deadLetters is "dead letters".
func words(suffix string) string {
	var out strings.Builder
	for _, r := range strings.ReplaceAll(suffix, "_", " ") {
		if r >= 'A' && r <= 'Z' {
			out.WriteByte(' ')
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return strings.TrimSpace(out.String())
}

// markdown is the example's code, with what it needs folded, and what it prints.
func (e *Example) markdown() string {
	text := "```go\n" + e.Code + "```\n\n"
	if e.Helpers != "" {
		text += "<details><summary>Functions and types that it uses</summary>\n\n```go\n" + e.Helpers + "```\n\n</details>\n\n"
	}
	if e.Output == "" {
		return text
	}
	title := "Output"
	if e.Unordered {
		title = "Output, in any order"
	}
	return text + title + ":\n\n```text\n" + strings.TrimSpace(e.Output) + "\n```\n\n"
}

// code shows a declaration, with the comments of its fields.
func (w *pageWriter) code(decl ast.Decl) {
	text, err := w.format(decl)
	w.err = cmp.Or(w.err, err)
	w.line("```go\n%s\n```\n", text)
}

func (w *pageWriter) format(decl ast.Decl) (string, error) {
	var out strings.Builder
	err := format.Node(&out, w.tree.files, decl)
	return out.String(), err
}

// text renders a documentation comment whose headings are of the given level.
func (w *pageWriter) text(text string, level int) {
	printer := w.pkg.Doc.Printer()
	printer.HeadingLevel = level
	printer.HeadingID = func(*comment.Heading) string { return "" }
	printer.DocLinkURL = w.docLink
	parser := w.pkg.Doc.Parser()
	imported := parser.LookupPackage
	parser.LookupPackage = func(name string) (string, bool) {
		if importPath, ok := imported(name); ok {
			return importPath, ok
		}
		return w.tree.named(name)
	}
	parser.LookupSym = func(receiver, name string) bool {
		return w.pkg.symbols[symbol(receiver, name)] != ""
	}
	w.out.WriteString(address.ReplaceAllStringFunc(string(printer.Markdown(parser.Parse(text))), unlinkExample))
	w.out.WriteString("\n")
}

// address is a URL in the text of a comment, which go/doc/comment makes a link.
var address = regexp.MustCompile(`\[(https?://[^\]]*)\]\((https?://[^)]*)\)`)

// unlinkExample leaves the text of an address that leads nowhere: of this machine, or of
// the domains that are for examples.
func unlinkExample(link string) string {
	text := address.FindStringSubmatch(link)[1]
	target, err := url.Parse(text)
	if err != nil {
		return link
	}
	host := target.Hostname()
	if host == "localhost" || host == "127.0.0.1" || regexp.MustCompile(`(^|\.)example(\.(com|org|net))?$`).MatchString(host) {
		return "`" + text + "`"
	}
	return link
}

// symbol is a name as [Package] has it.
func symbol(receiver, name string) string {
	if receiver != "" {
		return receiver + "." + name
	}
	return name
}

// docLink is where a link of a documentation comment leads. What has no page is not
// linked, and a name that does not exist is an error.
func (w *pageWriter) docLink(link *comment.DocLink) string {
	importPath := cmp.Or(link.ImportPath, w.pkg.Doc.ImportPath)
	if first, _, _ := strings.Cut(importPath, "/"); !strings.Contains(first, ".") {
		return link.DefaultURL("https://pkg.go.dev")
	}
	p := w.tree.byPath[importPath]
	if p == nil {
		return link.DefaultURL("https://pkg.go.dev")
	}
	name := symbol(link.Recv, link.Name)
	if w.tree.public(importPath) == nil {
		return ""
	}
	if name != "" && p.symbols[name] == "" {
		w.err = cmp.Or(w.err, fmt.Errorf("a comment links to %s.%s, which does not exist", p.title(), name))
	}
	return w.link(p, name)
}

// link leads from this page to a name of a package, or to the package with "".
func (w *pageWriter) link(p *Package, name string) string {
	fragment := ""
	if heading := p.symbols[name]; heading != "" {
		fragment = "#" + anchor(heading)
	}
	if p == w.pkg && fragment != "" {
		return fragment
	}
	relative, err := filepath.Rel(path.Dir(w.pkg.Page()), p.Page())
	w.err = cmp.Or(w.err, err)
	return filepath.ToSlash(relative) + fragment
}

// anchor is the id of a heading that is there once.
func anchor(heading string) string {
	var anchors docs.Anchors
	return anchors.ID(heading)
}
