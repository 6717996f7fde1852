package dispensary_test

import (
	"go/ast"
	"go/doc"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// unlisted are methods that a reader looks for in the interfaces that they implement.
var unlisted = strings.Fields("Error Unwrap Is String GoString Format LogValue MarshalJSON UnmarshalJSON MarshalText UnmarshalText EncodeValues")

// go doc shows nothing of what an alias stands for: the comment of each links to it, and
// names its fields and methods.
func TestAliasesSayWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	targets := map[string]*doc.Type{}
	for _, folder := range []string{"api", "api/observe", "ratelimit"} {
		p := packageDoc(t, folder)
		for _, kind := range p.Types {
			targets[p.Name+"."+kind.Name] = kind
		}
	}
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
		for _, member := range membersOf(targets[name]) {
			assert.Regexp(t, `\b`+regexp.QuoteMeta(member)+`\b`, kind.Doc, name)
		}
	}
	assert.Greater(t, aliases, 15)
}

// membersOf are the exported fields and methods of a type, and what it embeds.
func membersOf(kind *doc.Type) (members []string) {
	add := func(fields *ast.FieldList) {
		for _, field := range fields.List {
			for _, name := range field.Names {
				members = append(members, name.Name)
			}
			if embedded, ok := field.Type.(*ast.SelectorExpr); ok && len(field.Names) == 0 {
				members = append(members, embedded.Sel.Name)
			}
		}
	}
	switch shape := kind.Decl.Specs[0].(*ast.TypeSpec).Type.(type) {
	case *ast.StructType:
		add(shape.Fields)
	case *ast.InterfaceType:
		add(shape.Methods)
	}
	for _, method := range kind.Methods {
		members = append(members, method.Name)
	}
	return slices.DeleteFunc(members, func(name string) bool { return !ast.IsExported(name) || slices.Contains(unlisted, name) })
}
