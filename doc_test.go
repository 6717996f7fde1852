package dispensary_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// wantDocumented is the smallest share of exported names with a comment.
const wantDocumented = 0.95

// Every package has a package comment. Its exported types, functions, methods, constants and
// variables have comments. A constant may use the comment of its line or of its group.
func TestExportedNamesHaveComments(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	var all documented
	for _, folder := range packages(t, false) {
		p := packageDoc(t, folder)
		assert.True(t, strings.HasPrefix(p.Doc, "Package "+p.Name+" "), "%s: the package comment must begin with its name", folder)
		all.add(p)
	}
	share := float64(all.with) / float64(all.with+len(all.without))
	assert.GreaterOrEqual(t, share, wantDocumented, "without a comment:\n%s", strings.Join(all.without, "\n"))
	assert.Empty(t, all.misnamed, "comments that do not begin with the name")
}

// packageDoc returns the documentation of a package, as go doc shows it.
func packageDoc(t *testing.T, folder string) *doc.Package {
	t.Helper()
	files := token.NewFileSet()
	p, err := doc.NewFromFiles(files, parsed(t, files, folder, parser.ParseComments), module+"/"+folder)
	require.NoError(t, err)
	return p
}

// parsed parses the files of a package, without tests.
func parsed(t *testing.T, into *token.FileSet, folder string, mode parser.Mode) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(into, name, nil, mode)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	return files
}

// packages returns the folders with a package: of the root module, or also of nested
// modules if nested is set. It skips test data and hidden folders.
func packages(t *testing.T, nested bool) []string {
	t.Helper()
	var folders []string
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || err == nil && !nested {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			folders = append(folders, filepath.ToSlash(filepath.Dir(name)))
		}
		return nil
	}))
	slices.Sort(folders)
	return slices.Compact(folders)
}

// documented counts exported names.
type documented struct {
	with              int
	without, misnamed []string
}

func (d *documented) add(p *doc.Package) {
	d.values(p.Name, p.Consts, p.Vars)
	d.funcs(p.Name, p.Funcs)
	for _, kind := range p.Types {
		if !ast.IsExported(kind.Name) {
			continue
		}
		d.note(p.Name+"."+kind.Name, kind.Doc, kind.Name)
		d.values(p.Name, kind.Consts, kind.Vars)
		d.funcs(p.Name, kind.Funcs)
		d.funcs(p.Name+"."+kind.Name, kind.Methods)
	}
}

// note counts one name. A comment that begins with another word usually belongs to another
// name.
func (d *documented) note(name, comment, first string) {
	switch {
	case comment == "":
		d.without = append(d.without, name)
		return
	case first != "" && !strings.HasPrefix(comment, first+" ") && !strings.HasPrefix(comment, first+"'") && !strings.HasPrefix(comment, "Deprecated:"):
		d.misnamed = append(d.misnamed, fmt.Sprintf("%s: %.40s…", name, comment))
	}
	d.with++
}

func (d *documented) funcs(owner string, funcs []*doc.Func) {
	for _, f := range funcs {
		if ast.IsExported(f.Name) && f.Level == 0 {
			d.note(owner+"."+f.Name, f.Doc, f.Name)
		}
	}
}

func (d *documented) values(owner string, groups ...[]*doc.Value) {
	for _, group := range slices.Concat(groups...) {
		for _, spec := range group.Decl.Specs {
			value := spec.(*ast.ValueSpec)
			comment := value.Doc.Text() + value.Comment.Text()
			if len(group.Decl.Specs) == 1 || comment == "" {
				comment += group.Doc
			}
			for _, name := range value.Names {
				if name.IsExported() {
					d.note(owner+"."+name.Name, comment, "")
				}
			}
		}
	}
}

// go doc shows no documentation of the type behind an alias, so the alias must link to the
// type.
func TestAliasesLinkToTheirTypes(t *testing.T) {
	t.Parallel()
	aliases := 0
	for _, kind := range packageDoc(t, ".").Types {
		spec := kind.Decl.Specs[0].(*ast.TypeSpec)
		if !spec.Assign.IsValid() {
			continue
		}
		aliases++
		target := spec.Type
		if generic, ok := target.(*ast.IndexExpr); ok {
			target = generic.X
		}
		name := target.(*ast.SelectorExpr).X.(*ast.Ident).Name + "." + target.(*ast.SelectorExpr).Sel.Name
		assert.Contains(t, kind.Doc, "["+name+"]")
	}
	assert.Positive(t, aliases)
}

// exported counts the exported names of a package, and the exported methods of its exported
// types, including interfaces.
func exported(t *testing.T, folder string) (names, methods int) {
	t.Helper()
	p := packageDoc(t, folder)
	names = len(p.Funcs) + valuesOf(p.Consts, p.Vars)
	for _, kind := range p.Types {
		names += 1 + len(kind.Funcs) + valuesOf(kind.Consts, kind.Vars)
		for _, method := range kind.Methods {
			if method.Level == 0 { // not a method of an embedded type
				methods++
			}
		}
		if i, ok := kind.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.InterfaceType); ok {
			for _, method := range i.Methods.List {
				methods += len(method.Names)
			}
		}
	}
	return names, methods
}

func valuesOf(groups ...[]*doc.Value) (n int) {
	for _, group := range slices.Concat(groups...) {
		for _, name := range group.Names {
			if ast.IsExported(name) {
				n++
			}
		}
	}
	return n
}

// The limits keep the API from growing unnoticed. Raise a limit in the commit that needs it,
// and give the reason. Run the test with -v for the figures.
func TestExportedNamesStayFew(t *testing.T) {
	t.Parallel()
	const most, mostInRoot, mostOfFake = 900, 45, 200
	var all, fake int
	for _, folder := range packages(t, true) {
		if strings.HasPrefix(folder, "examples") || strings.HasPrefix(folder, "cmd") || strings.Contains("/"+folder+"/", "/internal/") {
			continue
		}
		names, methods := exported(t, folder)
		t.Logf("%-32s %3d names, %3d methods", folder, names, methods)
		all += names
		switch folder {
		case ".":
			assert.LessOrEqual(t, names, mostInRoot, "names of the root package")
		case "dispensarytest", "dispensarytest/model":
			fake += names + methods
		}
	}
	t.Logf("%d names, %d names and methods of the fake", all, fake)
	assert.LessOrEqual(t, all, most, "names of all packages")
	assert.LessOrEqual(t, fake, mostOfFake, "names and methods of the fake")
}

// names returns the distinct exported names of this module in a function. It ignores the names
// of packages, and the services of the client with the name of their package: Clinic and
// Events.
func names(function *ast.FuncDecl, imports map[string]bool) []string {
	used := map[string]bool{}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] { // a name of another module
				return false
			}
			used[n.Sel.Name] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				used[key.Name] = true
			}
		}
		return true
	})
	delete(used, "Clinic")
	delete(used, "Events")
	delete(used, "AddDate") // belongs to package time
	return slices.Sorted(maps.Keys(used))
}

func TestTasksNeedFewNames(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "example_tasks_test.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	others := map[string]bool{}
	for _, spec := range file.Imports {
		if path := strings.Trim(spec.Path.Value, `"`); !strings.HasPrefix(path, module) {
			others[path[strings.LastIndex(path, "/")+1:]] = true
		}
	}
	most := map[string]int{
		"Example": 6, "Example_listOrders": 6, "Example_createPatientOnce": 8, "Example_findPatient": 3, "Example_listEvents": 4,
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(function.Name.Name, "Example") {
			continue
		}
		used := names(function, others)
		t.Logf("%s needs %d names: %v", function.Name.Name, len(used), used)
		require.Contains(t, most, function.Name.Name)
		assert.LessOrEqual(t, len(used), most[function.Name.Name], "%s needs %v", function.Name.Name, used)
		delete(most, function.Name.Name)
	}
	assert.Empty(t, most, "missing examples")
}

// A newcomer runs the main job and all tests with two commands of the first screen.
func TestReadmeBeginsWithCommands(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	lines := strings.Split(string(readme), "\n")
	assert.LessOrEqual(t, len(lines)-1, 140)
	for _, command := range []string{"go run ./examples/quickstart", "go test work"} {
		assert.Contains(t, lines[:40], command)
	}
}
