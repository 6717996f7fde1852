package contract

import (
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	table "github.com/dispensary-go/dispensary/internal/operation"
)

// Row is an operation of the document or of the client's table.
type Row struct {
	Method string
	Route  string // path below the base URL, with parameters in braces

	// Key is the key around the response, or empty if there is none.
	Key string

	// List reports whether responses have items and meta instead of a single object.
	List bool

	// Scopes contains the scopes of the token, separated by spaces, or is empty without a token.
	Scopes string

	// ScopeStated reports whether the API's documentation states the scopes.
	ScopeStated bool

	Deprecated bool
}

// TableRows returns the client's table of operations, by name.
func TableRows() map[string]Row {
	rows := map[string]Row{}
	for _, op := range table.All() {
		rows[op.Name] = Row{op.Method, op.Route, op.Key, op.List, op.Scope, op.ScopeStated, op.Deprecated}
	}
	return rows
}

// Rows returns the operations of the document, by name.
func (v *Validator) Rows() map[string]Row {
	rows := map[string]Row{}
	for path, item := range v.doc.Paths.Map() {
		for method, op := range item.Operations() {
			scopes, _ := v.scopes(op)
			key, list := envelope(op)
			stated := len(scopes) > 0 && op.Extensions["x-scope-assumed"] != true
			rows[op.OperationID] = Row{method, path, key, list, strings.Join(scopes, " "), stated, op.Deprecated}
		}
	}
	return rows
}

// envelope returns the key around the JSON response with a 2xx status. A list has meta besides its
// items. A response with only a text member has no such key.
func envelope(op *openapi3.Operation) (key string, list bool) {
	for status, ref := range op.Responses.Map() {
		media := ref.Value.Content.Get("application/json")
		if !strings.HasPrefix(status, "2") || media == nil {
			continue
		}
		for name, property := range media.Schema.Value.Properties {
			switch {
			case name == "meta":
				list = true
			case !property.Value.Type.Is("string"):
				key = name
			}
		}
	}
	return key, list
}
