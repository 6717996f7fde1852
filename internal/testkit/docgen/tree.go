// Package docgen generates parts of hand-written pages: examples, the list of tasks, and links
// to names of packages. Its tests compare the pages with the code. With -update they rewrite
// the generated parts.
package docgen

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/dispensary-go/dispensary"

// Tree is the source of all modules of this repository.
type Tree struct {
	root   string
	files  *token.FileSet
	byPath map[string]*goPackage // by import path
}

// goPackage is a package of the tree.
type goPackage struct {
	Name   string
	Folder string // path from the root, with slashes; "." is the root itself

	sources map[string][]byte // by file name below the root
	parsed  map[string]*ast.File
	symbols map[string]bool // exported names: "New", "Client.Do", "Config.Site"
}

// Load reads the tree below root. It skips testdata, node_modules, hidden folders and the
// folder tools of the root.
func Load(root string) (*Tree, error) {
	t := &Tree{root: root, files: token.NewFileSet(), byPath: map[string]*goPackage{}}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(relative)
		base := path.Base(folder)
		if folder != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || folder == "tools") {
			return filepath.SkipDir
		}
		return t.load(folder)
	})
	return t, err
}

// named returns the import path of the public package with a name. found is false if there is
// no such package, or more than one.
func (t *Tree) named(name string) (importPath string, found bool) {
	for candidate, p := range t.byPath {
		if p.Name == name && t.public(candidate) != nil {
			if found {
				return "", false
			}
			importPath, found = candidate, true
		}
	}
	return importPath, found
}

// BrokenLinks returns the links in comments, such as [webhook.Router], to undeclared names. Each
// link follows the name of its file.
func (t *Tree) BrokenLinks() (broken []string) {
	for _, p := range t.byPath {
		for name, file := range p.parsed {
			imported := importsOf(file)
			for _, group := range file.Comments {
				for _, match := range nameInBrackets.FindAllStringSubmatch(group.Text(), -1) {
					importPath := imported[match[1]]
					if importPath == "" {
						importPath, _ = t.named(match[1])
					}
					target, symbol := t.byPath[importPath], strings.TrimPrefix(match[2], ".")
					if target != nil && symbol != "" && !target.symbols[symbol] {
						broken = append(broken, name+": "+match[0])
					}
				}
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// load reads the package in a folder, if there is one. On every platform it reads the files for
// Linux.
func (t *Tree) load(folder string) error {
	platform := build.Default
	platform.GOOS, platform.GOARCH, platform.CgoEnabled = "linux", "amd64", false
	found, err := platform.ImportDir(filepath.Join(t.root, folder), 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return nil
	}
	if err != nil {
		return err
	}
	p := &goPackage{
		Name: found.Name, Folder: folder,
		sources: map[string][]byte{}, parsed: map[string]*ast.File{}, symbols: map[string]bool{},
	}
	for _, base := range slices.Concat(found.GoFiles, found.TestGoFiles, found.XTestGoFiles) {
		name := path.Join(folder, base)
		source, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(t.files, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.sources[name], p.parsed[name] = source, file
		if slices.Contains(found.GoFiles, base) {
			p.index(file)
		}
	}
	t.byPath[path.Join(Module, folder)] = p
	return nil
}

// public returns the package of an import path if other modules can import it, and nil
// otherwise.
func (t *Tree) public(importPath string) *goPackage {
	p := t.byPath[importPath]
	if p == nil || p.Name == "main" {
		return nil
	}
	parts := strings.Split(p.Folder, "/")
	if parts[0] == "examples" || slices.Contains(parts, "internal") {
		return nil
	}
	return p
}

// title returns the name of the package for the text of a page.
func (p *goPackage) title() string {
	if p.Folder == "." {
		return p.Name
	}
	return p.Folder
}

// index collects the declared names of a file. A field or method includes its type, as in
// Client.Do.
func (p *goPackage) index(file *ast.File) {
	for _, decl := range file.Decls {
		f, function := decl.(*ast.FuncDecl)
		for _, name := range names(decl) {
			if function && f.Recv != nil {
				name += "." + f.Name.Name
			}
			p.symbols[name] = true
		}
		if types, ok := decl.(*ast.GenDecl); ok {
			for _, spec := range types.Specs {
				if kind, ok := spec.(*ast.TypeSpec); ok {
					p.indexMembers(kind)
				}
			}
		}
	}
}

// indexMembers collects the fields of a struct and the methods of an interface.
func (p *goPackage) indexMembers(kind *ast.TypeSpec) {
	var list *ast.FieldList
	switch shape := kind.Type.(type) {
	case *ast.StructType:
		list = shape.Fields
	case *ast.InterfaceType:
		list = shape.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			p.symbols[kind.Name.Name+"."+name.Name] = true
		}
	}
}

// names returns the declared names. For a method it returns the name of its type.
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

// manual lists the folders of the packages that a whole integration uses, in reading order.
var manual = []string{
	".", "api", "integration", "oauth", "oauth/accounts", "oauth/tokens", "oauth/connect", "webhook",
	"dispensarytest",
}

// task is a task of the cookbook: its heading, and the folder and the name of its example.
var task = regexp.MustCompile(`(?s)\n### ([^\n]+)\n(?:[^\n]*\n)*?(?:<!-- example: (\S+) (\w+) -->|<!-- command -->)\n`)

// packageHeading matches the mark of a heading in a package comment.
var packageHeading = regexp.MustCompile(`(?m)^# `)

// LLMs returns docs/llms.txt for coding agents that integrate the library. It contains the package
// comments of the manual, a line for each other package, and the tasks of the cookbook.
func (t *Tree) LLMs(cookbook string) string {
	var out strings.Builder
	fmt.Fprintf(&out, `# %s

> A Go client library for the API of a supplement dispensary: typed client, OAuth for many users, verified and
> stored webhooks, and a fake of the whole platform for tests. Read a symbol with "go doc PACKAGE.Symbol".
> "dispensary init DIR" writes a working integration with a test. Test against dispensarytest, never
> against the platform. "dispensary help --json" lists the commands.
`, Module)
	for _, folder := range manual {
		importPath := path.Join(Module, folder)
		text, _, _ := strings.Cut(t.byPath[importPath].text(), "\n# Assumptions\n") // the fake has a long list
		fmt.Fprintf(&out, "\n## %s\n\n%s", importPath, packageHeading.ReplaceAllString(text, "##$0"))
	}
	out.WriteString("\n## Other packages\n\n")
	var others []string
	for importPath, p := range t.byPath {
		if t.public(importPath) != nil && !slices.Contains(manual, p.Folder) {
			others = append(others, fmt.Sprintf("- %s: %s\n", p.Folder, new(doc.Package).Synopsis(p.text())))
		}
	}
	slices.Sort(others)
	out.WriteString(strings.Join(others, ""))
	out.WriteString("\n## Tasks\n\nEach task is an example function with checked output. docs/cookbook.md shows all of them.\n")
	var files []string
	tasks := map[string]string{} // by file
	for _, match := range task.FindAllStringSubmatch(cookbook, -1) {
		file, name := "docs/cookbook.md", ""
		if e := t.find(match[2], match[3]); e != nil {
			file, name = e.File, ": "+match[3]
		}
		if tasks[file] == "" {
			files = append(files, file)
		}
		tasks[file] += "- " + match[1] + name + "\n"
	}
	for _, file := range files {
		fmt.Fprintf(&out, "\n### %s\n\n%s", file, tasks[file])
	}
	return out.String()
}

// text returns the package comment as it is in the source.
func (p *goPackage) text() string {
	for _, file := range p.parsed {
		if file.Doc != nil && file.Name.Name == p.Name {
			return file.Doc.Text()
		}
	}
	return ""
}
