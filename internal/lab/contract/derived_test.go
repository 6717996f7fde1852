package contract_test

import (
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dispensary-go/dispensary/internal/lab/contract"
)

// breaches returns the wrong requests of an operation that follow from the document: from its
// scopes, path, parameters and body.
func breaches(name string, row contract.Row, op *openapi3.Operation, scopes []string) []refusal {
	var all []refusal
	if row.Scopes != "" {
		all = append(all, tokenBreaches(scopes)...)
		all = append(all, refusal{"malformed query", 400, func(_ *fixture, r *request) { r.query, r.rawQuery = nil, "query=%zz" }})
	}
	if strings.Contains(row.Route, "{") {
		all = append(all, refusal{"unknown id", 404, func(_ *fixture, r *request) { r.path[0] = "00000000-unknown" }})
	}
	for _, ref := range op.Parameters {
		if wrong, has := wrongParameter(ref.Value); has && row.Scopes != "" {
			all = append(all, refusal{"wrong " + ref.Value.Name, 422, func(_ *fixture, r *request) {
				r.query = query(ref.Value.Name, wrong)
			}})
		}
	}
	if op.RequestBody != nil && row.Scopes != "" {
		all = append(all, bodyBreaches(name, op.RequestBody.Value.Content.Get("application/json").Schema.Value)...)
	}
	return all
}

func tokenBreaches(scopes []string) []refusal {
	all := []refusal{
		{"no token", 401, func(_ *fixture, r *request) { r.token = "" }},
		{"unknown token", 401, func(_ *fixture, r *request) { r.token = "unknown" }},
		{"expired token", 401, func(s *fixture, r *request) {
			if err := s.fake.Tokens.Expire(r.token); err != nil {
				s.t.Error(err)
			}
		}},
		{"invalidated token", 401, func(s *fixture, _ *request) { s.fake.Tokens.InvalidateAll() }},
	}
	for _, scope := range scopes {
		all = append(all, refusal{"no " + scope, 403, func(s *fixture, r *request) {
			r.token = s.tokenWith(slices.DeleteFunc(s.fake.Application().Scopes, func(have string) bool { return have == scope })...)
		}})
	}
	return all
}

// wrongParameter returns an invalid value of a query parameter, or false if every text is valid.
func wrongParameter(p *openapi3.Parameter) (string, bool) {
	schema := p.Schema.Value
	switch {
	case p.In != openapi3.ParameterInQuery:
		return "", false
	case schema.Type.Is("integer"):
		return "0", true
	case schema.Type.Is("boolean"), len(schema.Enum) > 0, schema.Pattern != "":
		return "neither", true
	default:
		return "", false
	}
}

// tooLarge is a request with a body of more than 1 MiB.
var tooLarge = refusal{"too large", 413, sent("{}" + strings.Repeat(" ", 1<<20))}

// missing contains the status of an operation for a body without a required field. The default is
// 422.
var missing = map[string]int{"dynamic_links.create": 400}

func bodyBreaches(operation string, schema *openapi3.Schema) []refusal {
	all := []refusal{
		{"no JSON", 400, sent("{")},
		{"no object", 400, sent("[]")},
		{"null", 400, sent("null")},
		{"two objects", 400, sent("{} {}")},
		tooLarge,
	}
	status := 422
	if other, is := missing[operation]; is {
		status = other
	}
	if len(schema.Required) > 0 {
		all = append(all,
			refusal{"no body", status, sent(nil)},
			refusal{"empty body", status, sent(map[string]any{})})
	}
	for name, property := range schema.Properties {
		refused := 422
		if slices.Contains(schema.Required, name) {
			refused = status
		}
		all = append(all, refusal{"wrong " + name, refused, field(name, fixed(wrongValue(property.Value)))})
	}
	return all
}

// wrongValue returns a value of another type than the field.
func wrongValue(schema *openapi3.Schema) any {
	if schema.Type.Includes("string") {
		return 42
	}
	return "neither"
}
