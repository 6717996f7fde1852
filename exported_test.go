package dispensary_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// exported counts the exported names of a package, and the exported methods of its exported
// types, those of interfaces included.
func exported(t *testing.T, folder string) (names, methods int) {
	t.Helper()
	for _, file := range parsed(t, token.NewFileSet(), folder, parser.SkipObjectResolution) {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				switch {
				case !d.Name.IsExported():
				case d.Recv == nil:
					names++
				case ast.IsExported(receiver(d.Recv.List[0].Type)):
					methods++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					n, m := exportedBy(spec)
					names, methods = names+n, methods+m
				}
			}
		}
	}
	return names, methods
}

func exportedBy(spec ast.Spec) (names, methods int) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() {
				names++
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return 0, 0
		}
		names++
		if i, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, method := range i.Methods.List {
				methods += len(method.Names)
			}
		}
	}
	return names, methods
}

// receiver returns the name of the type of a receiver.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// The bars keep the API from growing unnoticed. Raise one in the commit that needs it, with
// the reason. Run the test with -v for the figures.
func TestExportedNames(t *testing.T) {
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
