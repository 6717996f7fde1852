package contract_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/contract"
)

func TestDocumentAndTableHaveTheSameRows(t *testing.T) {
	t.Parallel()
	s := start(t)
	assert.Len(t, s.check.Rows(), 62, "61 endpoints and the authorize page")
	assert.Empty(t, contract.Differences("the document", s.check.Rows(), "the table", contract.TableRows()))
}

func TestDocumentAndFakeHaveTheSameRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	assert.Empty(t, contract.Differences("the document", routes(s.check.Rows()), "the fake over HTTP", s.probed(s.fake.Handler())))
	// Requests do not show the routes that no test calls, so the fake's table is read too.
	assert.Empty(t, contract.Differences("the document", routes(s.check.Rows()), "the fake's table", sourceRows(t)))
}

// A row that is missing on any side, whichever row it is, makes a difference.
func TestARemovedRowIsReported(t *testing.T) {
	t.Parallel()
	s := start(t)
	sides := map[string][]contract.Row{
		"the document":  s.check.Rows(),
		"the table":     contract.TableRows(),
		"the exercises": named(exercised()),
		"the client":    named(slices.Sorted(maps.Keys(calltest.All(t)))),
		"the fake":      s.probed(s.fake.Handler()),
	}
	for side, rows := range sides {
		require.Len(t, rows, 62, "%s: 61 endpoints and the authorize page", side)
		require.Empty(t, contract.Differences("the document", names(s.check.Rows()), side, names(rows)))
		for i, row := range rows {
			left := slices.Delete(slices.Clone(rows), i, i+1)
			differences := contract.Differences("the document", names(s.check.Rows()), side, names(left))
			assert.Equal(t, []string{row.Name + ": the document has it, " + side + " has not"}, differences)
			differences = contract.Differences(side, names(left), "the table", names(contract.TableRows()))
			assert.Equal(t, []string{row.Name + ": the table has it, " + side + " has not"}, differences)
		}
	}
}

// The same with the things themselves: an operation out of the document, and a route
// out of a fake that answers over HTTP.
func TestARemovedOperationIsReported(t *testing.T) {
	t.Parallel()
	own, err := contract.Load()
	require.NoError(t, err)
	own.Document().Paths.Find("/clinic/patients").Post = nil
	assert.Equal(t, []string{"patients.create: the table has it, the document has not"},
		contract.Differences("the document", own.Rows(), "the table", contract.TableRows()))

	s := start(t)
	without := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/clinic/patients") {
			r.URL.Path = "/api/gone"
		}
		s.fake.Handler().ServeHTTP(w, r)
	})
	assert.Equal(t, []string{"patients.create: the document has it, the fake has not"},
		contract.Differences("the document", routes(s.check.Rows()), "the fake", s.probed(without)))
}

func TestAChangedRowIsReported(t *testing.T) {
	t.Parallel()
	row := contract.TableRows()[5]
	for field, change := range map[string]func(*contract.Row){
		"method":       func(r *contract.Row) { r.Method = "PUT" },
		"route":        func(r *contract.Row) { r.Route += "/{id}" },
		"response key": func(r *contract.Row) { r.Key = "other" },
		"list":         func(r *contract.Row) { r.List = !r.List },
		"scopes":       func(r *contract.Row) { r.Scopes = "other" },
		"scope stated": func(r *contract.Row) { r.ScopeStated = !r.ScopeStated },
		"deprecated":   func(r *contract.Row) { r.Deprecated = !r.Deprecated },
	} {
		other := row
		change(&other)
		differences := contract.Differences("one", []contract.Row{row}, "other", []contract.Row{other})
		require.Len(t, differences, 1)
		assert.Contains(t, differences[0], row.Name+": "+field+" is ")
	}
}

// probed asks a fake over HTTP for every route of the document, and lets its journal say
// which operation answered.
func (s *fixture) probed(fake http.Handler) []contract.Row {
	server := httptest.NewServer(fake)
	s.t.Cleanup(server.Close)
	var rows []contract.Row
	for _, row := range s.check.Rows() {
		path := "/api" + routeParameter.ReplaceAllString(row.Route, "probe")
		req, err := http.NewRequest(row.Method, server.URL+path, nil)
		require.NoError(s.t, err)
		resp, err := server.Client().Do(req)
		require.NoError(s.t, err)
		require.NoError(s.t, resp.Body.Close())
		for _, seen := range s.fake.Journal().Requests() {
			if seen.ID == resp.Header.Get("X-Request-Id") && seen.Operation != "" {
				rows = append(rows, contract.Row{Name: seen.Operation, Method: seen.Method, Route: seen.Route})
			}
		}
	}
	return rows
}

// sourceRows reads the fake's table out of its source: every literal with an id, a
// method and a route. The form that the authorize page sends to itself is none of the
// API's.
func sourceRows(t *testing.T) []contract.Row {
	t.Helper()
	files, err := filepath.Glob("../../dispensarytest/internal/operations/*.go")
	require.NoError(t, err)
	var rows []contract.Row
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			if row, is := sourceRow(node); is {
				rows = append(rows, row)
			}
			return true
		})
	}
	return rows
}

func sourceRow(node ast.Node) (contract.Row, bool) {
	literal, is := node.(*ast.CompositeLit)
	if !is {
		return contract.Row{}, false
	}
	fields := literalFields(literal)
	row := contract.Row{Name: fields["ID"], Method: fields["Method"], Route: fields["Route"]}
	ownForm := row.Name == "oauth.authorize" && row.Method == http.MethodPost
	return row, row.Name != "" && row.Method != "" && row.Route != "" && !ownForm
}

// literalFields are the fields of a struct literal whose values are plain texts.
func literalFields(literal *ast.CompositeLit) map[string]string {
	fields := map[string]string{}
	for _, element := range literal.Elts {
		pair, isPair := element.(*ast.KeyValueExpr)
		if !isPair {
			continue
		}
		key, isName := pair.Key.(*ast.Ident)
		value, isText := pair.Value.(*ast.BasicLit)
		if isName && isText && value.Kind == token.STRING {
			fields[key.Name], _ = strconv.Unquote(value.Value) // the parser took it for a string
		}
	}
	return fields
}

func names(rows []contract.Row) []contract.Row {
	var all []contract.Row
	for _, row := range rows {
		all = append(all, contract.Row{Name: row.Name})
	}
	return all
}

func named(list []string) []contract.Row {
	var all []contract.Row
	for _, name := range list {
		all = append(all, contract.Row{Name: name})
	}
	return all
}

// routes leaves of the rows what a fake shows of itself over HTTP.
func routes(rows []contract.Row) []contract.Row {
	var all []contract.Row
	for _, row := range rows {
		all = append(all, contract.Row{Name: row.Name, Method: row.Method, Route: row.Route})
	}
	return all
}

// The fake's event types are the document's.
func TestEventTypesAreTheSame(t *testing.T) {
	t.Parallel()
	s := start(t)
	var documented []string
	for _, value := range s.check.Document().Components.Schemas["EventType"].Value.Enum {
		documented = append(documented, value.(string))
	}
	assert.Equal(t, model.EventTypes(), documented)
}
