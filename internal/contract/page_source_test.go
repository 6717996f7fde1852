package contract_test

import (
	"encoding/json"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// What the page of the platform is written from, beside the tables that packages
// export: their own documentation, and the published document.

// parsed reads the files of a package, tests left out unless they are named.
func parsed(t *testing.T, folder string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	return set, files
}

// documentation is what a package's comments say.
func documentation(t *testing.T, folder, importPath string) *doc.Package {
	t.Helper()
	set, files := parsed(t, folder)
	pkg, err := doc.NewFromFiles(set, files, importPath)
	require.NoError(t, err)
	return pkg
}

// said is the comment of something that has a name, without the name that it begins
// with.
func said(pkg *doc.Package, name, text string) string {
	words := strings.TrimPrefix(plain(pkg, pkg.Parser().Parse(text).Content), name+" ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// plain writes pieces of a comment for a page in Markdown.
func plain(pkg *doc.Package, blocks []comment.Block) string {
	printer := pkg.Printer()
	printer.TextWidth = -1
	text := string(printer.Text(&comment.Doc{Content: blocks}))
	return strings.ReplaceAll(strings.TrimSpace(text), "<", `\<`)
}

// topic is a group of statements in a section of a package's comment.
type topic struct {
	name       string
	statements []string
}

// section reads a section of a package's comment that is made of lists: what comes
// before a list names it.
func section(t *testing.T, pkg *doc.Package, heading string) (topics []topic) {
	t.Helper()
	inside, before := false, ""
	for _, block := range pkg.Parser().Parse(pkg.Doc).Content {
		switch block := block.(type) {
		case *comment.Heading:
			inside = plain(pkg, []comment.Block{&comment.Paragraph{Text: block.Text}}) == heading
		case *comment.Paragraph:
			before = plain(pkg, []comment.Block{block})
		case *comment.List:
			if !inside {
				continue
			}
			one := topic{name: strings.TrimSuffix(before, ":")}
			for _, item := range block.Items {
				one.statements = append(one.statements, plain(pkg, item.Content))
			}
			topics = append(topics, one)
		}
	}
	require.NotEmpty(t, topics, "the package has no section %q with lists", heading)
	return topics
}

// clientCalls names the client's method of each operation, as package calltest calls it.
func clientCalls(t *testing.T) map[string]string {
	t.Helper()
	// These take more than one step, in package oauth.
	methods := map[string]string{
		"oauth.authorize": "oauth.Client.AuthorizeURL", "oauth.token": "oauth.Client.Exchange", "oauth.revoke": "oauth.Client.Revoke",
	}
	_, files := parsed(t, "../calltest")
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			entry, is := node.(*ast.KeyValueExpr)
			if !is {
				return true
			}
			key, is := entry.Key.(*ast.BasicLit)
			if !is || key.Kind != token.STRING {
				return true
			}
			name, err := strconv.Unquote(key.Value)
			require.NoError(t, err)
			if method := called(entry.Value); method != "" {
				methods[name] = method
			}
			return true
		})
	}
	return methods
}

// called finds the chain s.Client.A.B in an expression.
func called(in ast.Expr) (method string) {
	ast.Inspect(in, func(node ast.Node) bool {
		chain := selectors(node)
		if len(chain) > 2 && chain[1] == "Client" && method == "" {
			method = "Client." + strings.Join(chain[2:], ".")
		}
		return method == ""
	})
	return method
}

// selectors is a.b.c as its parts.
func selectors(node ast.Node) []string {
	switch node := node.(type) {
	case *ast.SelectorExpr:
		if before := selectors(node.X); before != nil {
			return append(before, node.Sel.Name)
		}
	case *ast.Ident:
		return []string{node.Name}
	}
	return nil
}

// published is the document as a tree, and as kin-openapi reads it.
func published(t *testing.T) (tree map[string]any, document *openapi3.T) {
	t.Helper()
	document = loaded(t).Document()
	encoded, err := json.Marshal(document)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &tree))
	return tree, document
}

// assumption is a statement of the published document that the API does not make.
type assumption struct{ where, text string }

// assumptionsIn collects the assumptions below a node, in the order of their places.
func assumptionsIn(node any, where []string) (found []assumption) {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if text, is := node[key].(string); is && key == "x-assumption" {
				found = append(found, assumption{strings.Join(where, " › "), strings.Join(strings.Fields(text), " ")})
				continue
			}
			found = append(found, assumptionsIn(node[key], append(slices.Clone(where), key))...)
		}
	case []any:
		for i, item := range node {
			at := strconv.Itoa(i + 1)
			if named, is := item.(map[string]any); is && named["name"] != nil {
				at = named["name"].(string)
			}
			found = append(found, assumptionsIn(item, append(slices.Clone(where), at))...)
		}
	}
	return found
}

// constantsOf are the documented string constants of a group, by their value.
func constantsOf(group *doc.Value) map[string]constant {
	found := map[string]constant{}
	for _, spec := range group.Decl.Specs {
		value, is := spec.(*ast.ValueSpec)
		if !is || len(value.Values) != 1 {
			continue
		}
		literal, is := value.Values[0].(*ast.BasicLit)
		if !is || value.Doc.Text() == "" {
			continue
		}
		if text, err := strconv.Unquote(literal.Value); err == nil {
			found[text] = constant{value.Names[0].Name, value.Doc.Text()}
		}
	}
	return found
}
