// Package docgen writes what is generated in docs: a page for each package, from its
// documentation comments, and the examples in the pages that people write. Its tests
// hold the files to the code; with -update they write them anew.
//
// The pages are Markdown and in the repository, so that GitHub shows them, the command
// can embed them, and a review sees what changed for those who import a package. The
// renderer is the standard library's: go/doc and go/doc/comment.
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
	"slices"
	"strconv"
	"strings"
)

// Module is the path of the root module.
const Module = "github.com/dispensary-go/dispensary"

// Tree is the source of all modules of this repository.
type Tree struct {
	root   string
	files  *token.FileSet
	byPath map[string]*Package // by import path
}

// Package is a package of the tree.
type Package struct {
	Doc    *doc.Package
	Folder string // from the root, with slashes; "." is the root itself
	Module string // the folder of its module

	sources map[string][]byte // by the name of the file, below the root
	parsed  map[string]*ast.File
	symbols map[string]string // by name ("New", "Client.Do"): the heading they are shown under
}

// Load reads the tree below root.
func Load(root string) (*Tree, error) {
	t := &Tree{root: root, files: token.NewFileSet(), byPath: map[string]*Package{}}
	modules := map[string]string{} // by folder
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
		modules[folder] = modules[path.Dir(folder)]
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
			modules[folder] = folder
		}
		return t.load(folder, modules[folder])
	})
	for _, p := range t.byPath {
		t.indexAliases(p)
	}
	return t, err
}

// named returns the import path of the only public package of a name.
func (t *Tree) named(name string) (importPath string, found bool) {
	for _, p := range t.Public() {
		if p.Doc.Name == name {
			if found {
				return "", false
			}
			importPath, found = p.Doc.ImportPath, true
		}
	}
	return importPath, found
}

// load reads the package in a folder, if there is one. What is built for Linux is what
// is documented, on every machine.
func (t *Tree) load(folder, module string) error {
	platform := build.Default
	platform.GOOS, platform.GOARCH, platform.CgoEnabled = "linux", "amd64", false
	found, err := platform.ImportDir(filepath.Join(t.root, folder), 0)
	if _, none := errors.AsType[*build.NoGoError](err); none {
		return nil
	}
	if err != nil {
		return err
	}
	p := &Package{
		Folder: folder, Module: module,
		sources: map[string][]byte{}, parsed: map[string]*ast.File{}, symbols: map[string]string{},
	}
	var all []*ast.File
	for _, name := range slices.Concat(found.GoFiles, found.TestGoFiles, found.XTestGoFiles) {
		name = path.Join(folder, name)
		source, err := os.ReadFile(filepath.Join(t.root, name))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(t.files, name, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.sources[name], p.parsed[name] = source, file
		all = append(all, file)
	}
	importPath := path.Join(Module, folder)
	if p.Doc, err = doc.NewFromFiles(t.files, all, importPath); err != nil {
		return fmt.Errorf("%s: %w", folder, err)
	}
	p.index()
	t.byPath[importPath] = p
	return nil
}

// Public are the packages that others can import, and the command, in order of their
// folders.
func (t *Tree) Public() []*Package {
	var public []*Package
	for _, p := range t.byPath {
		example := p.Folder == "examples" || strings.HasPrefix(p.Folder, "examples/")
		if !example && !slices.Contains(strings.Split(p.Folder, "/"), "internal") && (p.Doc.Name != "main" || p.Folder == "cmd/dispensary") {
			public = append(public, p)
		}
	}
	slices.SortFunc(public, func(a, b *Package) int { return strings.Compare(a.Doc.ImportPath, b.Doc.ImportPath) })
	return public
}

// public returns the package of an import path if it has a page.
func (t *Tree) public(importPath string) *Package {
	p := t.byPath[importPath]
	if p == nil || !slices.Contains(t.Public(), p) {
		return nil
	}
	return p
}

// Page is the name of the package's page below docs.
func (p *Package) Page() string {
	if p.Folder == "." {
		return "packages/dispensary.md"
	}
	return "packages/" + p.Folder + ".md"
}

// title is what the package is called in text.
func (p *Package) title() string {
	if p.Folder == "." {
		return "dispensary"
	}
	return p.Folder
}

// imports are the packages that a file imports.
func (p *Package) imports(file string) map[string]bool {
	imports := map[string]bool{}
	for _, spec := range p.parsed[file].Imports {
		if importPath, err := strconv.Unquote(spec.Path.Value); err == nil {
			imports[importPath] = true
		}
	}
	return imports
}

// index notes under which heading of its page each exported name is.
func (p *Package) index() {
	values := func(groups []*doc.Value, heading string) {
		for _, group := range groups {
			for _, name := range group.Names {
				p.symbols[name] = heading
			}
		}
	}
	values(p.Doc.Consts, "Constants")
	values(p.Doc.Vars, "Variables")
	for _, f := range p.Doc.Funcs {
		p.symbols[f.Name] = "func " + f.Name
	}
	for _, kind := range p.Doc.Types {
		p.symbols[kind.Name] = "type " + kind.Name
		values(kind.Consts, "type "+kind.Name)
		values(kind.Vars, "type "+kind.Name)
		for _, f := range kind.Funcs {
			p.symbols[f.Name] = "func " + f.Name
		}
		for _, method := range kind.Methods {
			p.symbols[kind.Name+"."+method.Name] = kind.Name + "." + method.Name
		}
		for _, member := range members(kind) {
			p.symbols[kind.Name+"."+member] = "type " + kind.Name
		}
	}
}

// indexAliases notes that the fields and methods of what an alias stands for are shown
// with the alias.
func (t *Tree) indexAliases(p *Package) {
	for _, alias := range p.Doc.Types {
		_, kind := t.target(p, alias)
		if kind == nil {
			continue
		}
		heading := "type " + alias.Name
		for _, method := range kind.Methods {
			p.symbols[alias.Name+"."+method.Name] = heading
		}
		for _, member := range members(kind) {
			p.symbols[alias.Name+"."+member] = heading
		}
	}
}

// members are the exported fields of a struct, and the methods of an interface.
func members(kind *doc.Type) (names []string) {
	for node := range ast.Preorder(kind.Decl) {
		var list *ast.FieldList
		switch shape := node.(type) {
		case *ast.StructType:
			list = shape.Fields
		case *ast.InterfaceType:
			list = shape.Methods
		default:
			continue
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				if name.IsExported() {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
