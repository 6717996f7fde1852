package operation

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The table has a row for each of the 61 endpoints and for the authorize page.
func TestTableIsComplete(t *testing.T) {
	t.Parallel()
	assert.Len(t, All(), 62)
}

func TestRowsAreWellFormed(t *testing.T) {
	t.Parallel()
	methods := []string{"GET", "POST", "PATCH"}
	names, routes := map[string]bool{}, map[string]bool{}
	for _, op := range All() {
		assert.False(t, names[op.Name], "%s is not unique", op.Name)
		assert.False(t, routes[op.Method+op.Route], "%s %s is not unique", op.Method, op.Route)
		names[op.Name], routes[op.Method+op.Route] = true, true
		assert.Contains(t, methods, op.Method, op.Name)
		assert.True(t, strings.HasPrefix(op.Route, "/"), op.Name)
		for scope := range strings.FieldsSeq(op.Scope) {
			assert.Contains(t, Scopes(), scope, op.Name)
			assert.Contains(t, scope, ":", "%s must need a scope and not a group", op.Name)
		}
		assert.Equal(t, strings.HasPrefix(op.Route, "/oauth/"), !op.NeedsToken(), op.Name)
		assert.Equal(t, op.Method == "GET", op.Read(), op.Name)
		if op.List {
			assert.True(t, op.Read(), op.Name)
			assert.NotEmpty(t, op.Key, op.Name)
		}
	}
}

func TestRoutesSplitIntoTextAndParameters(t *testing.T) {
	t.Parallel()
	op := New(Operation{Method: "GET", Route: "/a/{one}/b/{two}/c"})
	assert.Equal(t, []string{"one", "two"}, slices.Collect(op.Params()))
	var route strings.Builder
	for text, param := range op.Segments() {
		route.WriteString(text)
		if param != "" {
			route.WriteString("{" + param + "}")
		}
	}
	assert.Equal(t, op.Route, route.String())
}

func TestAllReturnsCopy(t *testing.T) {
	t.Parallel()
	rows := All()
	rows[0] = nil
	assert.NotNil(t, All()[0])
}
