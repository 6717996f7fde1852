package docgen

import (
	"go/ast"
	"go/doc"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// example is an Example… function of a test file.
type example struct {
	Code      string   // function body
	Output    string   // expected output, or "" if tests do not run the example
	Unordered bool     // the lines of Output may have any order
	File      string   // path from the root of the tree
	Imports   []string // import paths of the packages in Code
}

// find returns the example with a name, such as ExampleNew, of the package in a folder. It
// returns nil if there is none.
func (t *Tree) find(folder, name string) *example {
	p, file, f := t.function(folder, name)
	if f == nil || !strings.HasPrefix(name, "Example") {
		return nil
	}
	return t.read(p, file, f)
}

// fileOf returns the source of the file that declares an example, a test or the main function
// of a program. It returns "" if there is none.
func (t *Tree) fileOf(folder, name string) string {
	p, file, f := t.function(folder, name)
	if f == nil || !regexp.MustCompile(`^(Example|Test|main$)`).MatchString(name) {
		return ""
	}
	return string(p.sources[file])
}

// function returns a function of the package in a folder, with its package and file name. It
// returns nil if there is none.
func (t *Tree) function(folder, name string) (*goPackage, string, *ast.FuncDecl) {
	p := t.byPath[path.Join(Module, folder)]
	if p == nil {
		return nil, "", nil
	}
	for file, parsed := range p.parsed {
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				return p, file, f
			}
		}
	}
	return nil, "", nil
}

// outputComment matches the start of the comment with the output of an example.
var outputComment = regexp.MustCompile(`(?im)^[ \t]*//[ \t]*(unordered )?output:`)

func (t *Tree) read(p *goPackage, file string, f *ast.FuncDecl) *example {
	body := t.source(p, file, f.Body.Lbrace+1, f.Body.Rbrace)
	if at := outputComment.FindAllStringIndex(body, -1); at != nil {
		body = body[:at[len(at)-1][0]]
	}
	e := &example{File: file}
	e.Code = strings.Trim(strings.ReplaceAll("\n"+body, "\n\t", "\n"), "\n\t ") + "\n"
	imported, used := importsOf(p.parsed[file]), map[string]bool{}
	for node := range ast.Preorder(f.Body) {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok && imported[name.Name] != "" {
				used[imported[name.Name]] = true
			}
		}
	}
	e.Imports = slices.Sorted(maps.Keys(used))
	for _, printed := range doc.Examples(p.parsed[file]) {
		if "Example"+printed.Name == f.Name.Name {
			e.Output, e.Unordered = printed.Output, printed.Unordered
		}
	}
	return e
}

// importsOf returns the import paths of a file, keyed by the package names in the file.
func importsOf(file *ast.File) map[string]string {
	imported := map[string]string{}
	for _, spec := range file.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		imported[importName(spec, importPath)] = importPath
	}
	return imported
}

// importName returns the package name of an import in its file.
func importName(spec *ast.ImportSpec, importPath string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(importPath)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(base) {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// source returns the text between two positions of a file.
func (t *Tree) source(p *goPackage, file string, from, to token.Pos) string {
	return string(p.sources[file][t.files.Position(from).Offset:t.files.Position(to).Offset])
}

// markdown returns the code and the output of the example as Markdown.
func (e *example) markdown() string {
	text := "```go\n" + e.Code + "```\n\n"
	if e.Output == "" {
		return text
	}
	title := "Output"
	if e.Unordered {
		title = "Output, in any order"
	}
	return text + title + ":\n\n```text\n" + strings.TrimSpace(e.Output) + "\n```\n\n"
}
