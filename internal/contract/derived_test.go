package contract_test

import (
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/dispensary-go/dispensary/internal/contract"
)

// breach is a refusal that follows from the document. Where the request itself departs
// from it, the validator has to say so too.
type breach struct {
	refusal
	departs bool
}

// breaches are the refusals of an operation that follow from what the document says
// about it: its scopes, its path, its parameters, its body.
func breaches(row contract.Row, op *openapi3.Operation, scopes []string) []breach {
	var all []breach
	if row.Scopes != "" {
		all = append(all, tokenBreaches(scopes)...)
		all = append(all, breach{refusal{"malformed query", 400, func(_ *fixture, r *request) { r.query, r.rawQuery = nil, "query=%zz" }}, true})
	}
	if strings.Contains(row.Route, "{") {
		all = append(all, breach{refusal{"unknown id", 404, func(_ *fixture, r *request) { r.path[0] = "00000000-unknown" }}, false})
	}
	for _, ref := range op.Parameters {
		if wrong, has := wrongParameter(ref.Value); has && row.Scopes != "" {
			all = append(all, breach{refusal{"wrong " + ref.Value.Name, 422, func(_ *fixture, r *request) {
				r.query = query(ref.Value.Name, wrong)
			}}, true})
		}
	}
	if op.RequestBody != nil && row.Scopes != "" {
		all = append(all, bodyBreaches(row, op.RequestBody.Value.Content.Get("application/json").Schema.Value)...)
	}
	return all
}

func tokenBreaches(scopes []string) []breach {
	all := []breach{
		{refusal{"no token", 401, func(_ *fixture, r *request) { r.token = "" }}, true},
		{refusal{"unknown token", 401, func(_ *fixture, r *request) { r.token = "unknown" }}, false},
		{refusal{"expired token", 401, func(s *fixture, r *request) {
			if err := s.fake.Tokens.Expire(r.token); err != nil {
				s.t.Error(err)
			}
		}}, false},
		{refusal{"invalidated token", 401, func(s *fixture, _ *request) { s.fake.Tokens.InvalidateAll() }}, false},
	}
	for _, scope := range scopes {
		all = append(all, breach{refusal{"no " + scope, 403, func(s *fixture, r *request) {
			r.token = s.tokenWith(slices.DeleteFunc(s.fake.Application().Scopes, func(have string) bool { return have == scope })...)
		}}, false})
	}
	return all
}

// wrongParameter is a value that a query parameter cannot have; false where any text is
// good.
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

// tooLarge is a body of more than 1 MiB.
var tooLarge = refusal{"too large", 413, sent("{}" + strings.Repeat(" ", 1<<20))}

// missing is how an operation refuses a body without what it requires; 422 where nothing
// else is said.
var missing = map[string]int{"dynamic_links.create": 400}

func bodyBreaches(row contract.Row, schema *openapi3.Schema) []breach {
	all := []breach{
		{refusal{"no JSON", 400, sent("{")}, true},
		{refusal{"no object", 400, sent("[]")}, true},
		{refusal{"two objects", 400, sent("{} {}")}, true},
		{tooLarge, false},
	}
	status := 422
	if other, is := missing[row.Name]; is {
		status = other
	}
	if len(schema.Required) > 0 {
		all = append(all,
			breach{refusal{"no body", status, sent(nil)}, true},
			breach{refusal{"empty body", status, sent(map[string]any{})}, true})
	}
	for name, property := range schema.Properties {
		refused := 422
		if slices.Contains(schema.Required, name) {
			refused = status
		}
		all = append(all, breach{refusal{"wrong " + name, refused, field(name, fixed(wrongValue(property.Value)))}, true})
	}
	return all
}

// wrongValue is of another type than the field.
func wrongValue(schema *openapi3.Schema) any {
	if schema.Type.Includes("string") {
		return 42
	}
	return "neither"
}
