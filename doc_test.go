package dispensary_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
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
