package contract

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
)

func (v *Validator) checkRequest(op *operation, req *http.Request, body []byte) []Violation {
	var violations []Violation
	params, matches := op.match(req.URL.EscapedPath())
	if req.Method != op.route.Method || !matches {
		violations = append(violations, Violation{Place: InOperation, Rule: RuleMismatch})
	}
	violations = append(violations, v.checkSecurity(op, req)...)
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		violations = append(violations, Violation{Place: InQuery, Rule: RuleMalformed})
	}
	violations = append(violations, checkParameters(op, req, params, query)...)
	if v.strict {
		violations = append(violations, unknownParameters(op, query)...)
	}
	violations = append(violations, op.request.check(req.Header.Get("Content-Type"), body)...)
	return signed(op.name, Request, violations)
}

// match reads the route's parameters off the end of an escaped path; what stands before
// is the base address. A webhook has no route: its address is the integrator's own.
func (o *operation) match(path string) (map[string]string, bool) {
	params := map[string]string{}
	given := strings.Split(path, "/")
	if len(given) < len(o.segments) {
		return params, false
	}
	for i, segment := range given[len(given)-len(o.segments):] {
		want := o.segments[i]
		if !strings.HasPrefix(want, "{") {
			if segment != want {
				return params, false
			}
			continue
		}
		value, err := url.PathUnescape(segment)
		if err != nil || value == "" {
			return params, false
		}
		params[strings.Trim(want, "{}")] = value
	}
	return params, true
}

// scopes are what the operation's token needs; it is false if the operation needs no token.
func (v *Validator) scopes(op *openapi3.Operation) ([]string, bool) {
	requirements := v.doc.Security
	if op.Security != nil {
		requirements = *op.Security
	}
	if len(requirements) == 0 {
		return nil, false
	}
	scopes, needed := requirements[0]["bearer"]
	return scopes, needed
}

// checkSecurity asks for a bearer token. Which scopes it has, a request does not show.
func (v *Validator) checkSecurity(op *operation, req *http.Request) []Violation {
	if _, needed := v.scopes(op.route.Operation); !needed {
		return nil
	}
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && token != "" {
		return nil
	}
	return []Violation{{Place: InSecurity, Path: "Authorization", Rule: RuleRequired}}
}

// parameters are the operation's own and its path's.
func (o *operation) parameters() []*openapi3.Parameter {
	var all []*openapi3.Parameter
	for _, ref := range slices.Concat(o.route.PathItem.Parameters, o.route.Operation.Parameters) {
		all = append(all, ref.Value)
	}
	return all
}

func checkParameters(op *operation, req *http.Request, path map[string]string, query url.Values) []Violation {
	input := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: path, QueryParams: query, Route: op.route,
		// A default would be written into the request.
		Options: &openapi3filter.Options{MultiError: true, SkipSettingDefaults: true},
	}
	var violations []Violation
	for _, p := range op.parameters() {
		err := openapi3filter.ValidateParameter(context.Background(), input, p)
		if err == nil {
			continue
		}
		for _, f := range findings(err) {
			violations = append(violations, Violation{Place: Place(p.In), Path: p.Name + pointer(f.path), Rule: f.rule})
		}
	}
	return violations
}

// unknownParameters reports what the server would ignore, such as a misspelt page[size].
func unknownParameters(op *operation, query url.Values) []Violation {
	var violations []Violation
	for _, name := range slices.Sorted(maps.Keys(query)) {
		known := slices.ContainsFunc(op.parameters(), func(p *openapi3.Parameter) bool {
			return p.In == openapi3.ParameterInQuery && p.Name == name
		})
		if !known {
			violations = append(violations, Violation{Place: InQuery, Path: name, Rule: RuleUnknown})
		}
	}
	return violations
}
