package contract

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	table "github.com/dispensary-go/dispensary/internal/operation"
)

// Row is what every side of the project says about an operation.
type Row struct {
	Name   string // "patients.create"
	Method string
	Route  string // below the base address, parameters in braces

	// Key is what the answer is wrapped in; empty where it is not.
	Key string

	// List reports that answers have items and meta, and not a single object.
	List bool

	// Scopes are what the token needs, separated by spaces; empty without a token.
	Scopes string

	// ScopeStated marks scopes that the API's documentation states.
	ScopeStated bool

	Deprecated bool
}

// TableRows are the rows of the client's table of operations.
func TableRows() []Row {
	var rows []Row
	for _, op := range table.All() {
		rows = append(rows, Row{
			Name: op.Name, Method: op.Method, Route: op.Route, Key: op.Key, List: op.List,
			Scopes: op.Scope, ScopeStated: op.ScopeStated, Deprecated: op.Deprecated,
		})
	}
	return rows
}

// Rows are the operations of the document, sorted by name.
func (v *Validator) Rows() []Row {
	var rows []Row
	for path, item := range v.doc.Paths.Map() {
		for method, op := range item.Operations() {
			scopes, _ := v.scopes(op)
			row := Row{
				Name: op.OperationID, Method: method, Route: path, Deprecated: op.Deprecated,
				Scopes: strings.Join(scopes, " "), ScopeStated: len(scopes) > 0 && op.Extensions["x-scope-assumed"] != true,
			}
			row.Key, row.List = envelope(op)
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Name, b.Name) })
	return rows
}

// envelope reads off the answer to a success what it is wrapped in. A list has meta
// beside its items. An answer whose only key holds a text is not wrapped.
func envelope(op *openapi3.Operation) (key string, list bool) {
	schema := success(op)
	if schema == nil {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property := schema.Properties[name].Value
		switch {
		case name == "meta":
			list = true
		case !property.Type.Is("string"):
			key = name
		}
	}
	return key, list
}

// success is the schema of the JSON answer with a status of 2xx.
func success(op *openapi3.Operation) *openapi3.Schema {
	for status, ref := range op.Responses.Map() {
		media := ref.Value.Content.Get(mediaJSON)
		if strings.HasPrefix(status, "2") && media != nil {
			return media.Schema.Value
		}
	}
	return nil
}

// Differences compares two sides row by row, and says what only one of them has and in
// what common rows differ.
func Differences(oneName string, one []Row, otherName string, other []Row) []string {
	var differences []string
	for _, a := range one {
		at := slices.IndexFunc(other, func(b Row) bool { return a.Name == b.Name })
		if at < 0 {
			differences = append(differences, fmt.Sprintf("%s: %s has it, %s has not", a.Name, oneName, otherName))
			continue
		}
		for _, field := range a.against(other[at]) {
			differences = append(differences, fmt.Sprintf("%s: %s is %q in %s and %q in %s", a.Name, field.name, field.a, oneName, field.b, otherName))
		}
	}
	for _, b := range other {
		if !slices.ContainsFunc(one, func(a Row) bool { return a.Name == b.Name }) {
			differences = append(differences, fmt.Sprintf("%s: %s has it, %s has not", b.Name, otherName, oneName))
		}
	}
	return differences
}

type difference struct{ name, a, b string }

func (r Row) against(other Row) []difference {
	fields := []difference{
		{"method", r.Method, other.Method},
		{"route", r.Route, other.Route},
		{"response key", r.Key, other.Key},
		{"list", fmt.Sprint(r.List), fmt.Sprint(other.List)},
		{"scopes", r.Scopes, other.Scopes},
		{"scope stated", fmt.Sprint(r.ScopeStated), fmt.Sprint(other.ScopeStated)},
		{"deprecated", fmt.Sprint(r.Deprecated), fmt.Sprint(other.Deprecated)},
	}
	return slices.DeleteFunc(fields, func(d difference) bool { return d.a == d.b })
}
