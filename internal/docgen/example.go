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

// Example is a function of a test file, Example…, with what it needs of its package.
type Example struct {
	Code      string   // its body
	Helpers   string   // the declarations of its package that it uses
	Output    string   // what it prints; "" where it is not run
	Unordered bool     // whether the lines of Output come in any order
	File      string   // where it is, from the root of the tree
	Imports   []string // the packages that it names
}

// Example returns the example of a name, such as ExampleNew, from the package in a
// folder, and nil if there is none.
func (t *Tree) Example(folder, name string) *Example {
	p, file, f := t.function(folder, name)
	if f == nil || !strings.HasPrefix(name, "Example") {
		return nil
	}
	return t.example(p, file, f)
}

// fileOf returns the source of the file that has an example, a test or the main of a
// program, and "" if there is none.
func (t *Tree) fileOf(folder, name string) string {
	p, file, f := t.function(folder, name)
	if f == nil || !regexp.MustCompile(`^(Example|Test|main$)`).MatchString(name) {
		return ""
	}
	return string(p.sources[file])
}

// function finds a function of the package in a folder.
func (t *Tree) function(folder, name string) (*Package, string, *ast.FuncDecl) {
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

// outputComment begins the comment with what an example prints.
var outputComment = regexp.MustCompile(`(?im)^[ \t]*//[ \t]*(unordered )?output:`)

func (t *Tree) example(p *Package, file string, f *ast.FuncDecl) *Example {
	body := t.source(p, file, f.Body.Lbrace+1, f.Body.Rbrace)
	if at := outputComment.FindAllStringIndex(body, -1); at != nil {
		body = body[:at[len(at)-1][0]]
	}
	e := &Example{File: file}
	e.Code = strings.Trim(strings.ReplaceAll("\n"+body, "\n\t", "\n"), "\n\t ") + "\n"
	var helpers []string
	imports := map[string]bool{}
	for _, need := range t.needs(p, file, f) {
		maps.Copy(imports, need.imports)
		if need.decl != f {
			helpers = append(helpers, need.text+"\n")
		}
	}
	e.Helpers = strings.Join(helpers, "\n")
	e.Imports = slices.Sorted(maps.Keys(imports))
	for _, printed := range doc.Examples(p.parsed[file]) {
		if "Example"+printed.Name == f.Name.Name {
			e.Output, e.Unordered = printed.Output, printed.Unordered
		}
	}
	return e
}

// need is a declaration that an example needs.
type need struct {
	decl    ast.Decl
	text    string
	imports map[string]bool
}

// needs returns the function and, in the order of their use, the declarations of its
// package that it needs, directly or not.
func (t *Tree) needs(p *Package, file string, f *ast.FuncDecl) []need {
	declared := map[string][]ast.Decl{}
	files := map[ast.Decl]string{}
	for _, name := range slices.Sorted(maps.Keys(p.parsed)) {
		if p.parsed[name].Name.Name != p.parsed[file].Name.Name {
			continue
		}
		for _, decl := range p.parsed[name].Decls {
			files[decl] = name
			for _, symbol := range names(decl) {
				declared[symbol] = append(declared[symbol], decl)
			}
		}
	}
	var found []need
	seen := map[ast.Decl]bool{f: true}
	for queue := []ast.Decl{f}; len(queue) > 0; queue = queue[1:] {
		decl := queue[0]
		uses, imports := used(decl, p.parsed[files[decl]])
		from := decl.Pos()
		if comment := docOf(decl); comment != nil {
			from = comment.Pos()
		}
		found = append(found, need{decl: decl, text: t.source(p, files[decl], from, decl.End()), imports: imports})
		for _, symbol := range uses {
			for _, next := range declared[symbol] {
				if !seen[next] {
					seen[next] = true
					queue = append(queue, next)
				}
			}
		}
	}
	return found
}

// names returns what a declaration declares; a method belongs to its type.
func names(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		receiver := d.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}
		if generic, ok := receiver.(*ast.IndexExpr); ok {
			receiver = generic.X
		}
		if name, ok := receiver.(*ast.Ident); ok {
			return []string{name.Name}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, name := range s.Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

func docOf(decl ast.Decl) *ast.CommentGroup {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return d.Doc
	case *ast.GenDecl:
		return d.Doc
	}
	return nil
}

// used returns the names that a declaration uses and does not declare itself, in order,
// and the packages that it selects from.
func used(decl ast.Decl, file *ast.File) (uses []string, imports map[string]bool) {
	imported := importsOf(file)
	imports = map[string]bool{}
	local := map[string]bool{}
	var visit func(node ast.Node) bool
	visit = func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, rhs := range n.Rhs {
					ast.Inspect(rhs, visit)
				}
				for _, lhs := range n.Lhs {
					if name, ok := lhs.(*ast.Ident); ok {
						local[name.Name] = true
					}
				}
				return false
			}
		case *ast.SelectorExpr:
			if name, ok := n.X.(*ast.Ident); ok && !local[name.Name] && imported[name.Name] != "" {
				imports[imported[name.Name]] = true
				return false
			}
			ast.Inspect(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			if _, field := n.Key.(*ast.Ident); field {
				ast.Inspect(n.Value, visit)
				return false
			}
		case *ast.Field:
			for _, name := range n.Names {
				local[name.Name] = true
			}
			ast.Inspect(n.Type, visit)
			return false
		case *ast.Ident:
			if !local[n.Name] {
				uses = append(uses, n.Name)
			}
		}
		return true
	}
	ast.Inspect(decl, visit)
	return uses, imports
}

// importsOf returns the import paths of a file by the names of their packages in it.
func importsOf(file *ast.File) map[string]string {
	imported := map[string]string{}
	for _, spec := range file.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		imported[importName(spec, importPath)] = importPath
	}
	return imported
}

// importName is the name under which a file knows an import.
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
func (t *Tree) source(p *Package, file string, from, to token.Pos) string {
	return string(p.sources[file][t.files.Position(from).Offset:t.files.Position(to).Offset])
}

// markdown is the example's code, with its helpers folded, and its output.
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
