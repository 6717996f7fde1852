package dispensary_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
