package contract_test

import (
	"maps"
	"net/url"
	"slices"
)

// exercise contains a successful call of an operation, and wrong calls that do not follow from the
// document.
type exercise struct {
	// request returns the successful call without its token.
	request func(s *fixture) request
	status  int // 0 means 200

	// scopes replaces the scopes of the document if they depend on the request.
	scopes []string

	// refusals contains calls that fail because of rules outside the document.
	refusals []refusal
}

type refusal struct {
	name   string
	status int
	change func(s *fixture, r *request) // changes the successful request
}

// exercises has a row for each operation, by name.
var exercises = merged(catalogExercises, clinicExercises, careExercises, linkExercises, eventExercises, oauthExercises)

func merged(sections ...map[string]exercise) map[string]exercise {
	all := map[string]exercise{}
	for _, section := range sections {
		for name, row := range section {
			if _, twice := all[name]; twice {
				panic(name + " is exercised twice")
			}
			all[name] = row
		}
	}
	return all
}

func exercised() []string { return slices.Sorted(maps.Keys(exercises)) }

// plainly returns a request without parameters.
func plainly(*fixture) request { return request{} }

// firstOf returns a request for the first item of a list.
func firstOf(list string, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		var values []string
		for _, value := range path {
			values = append(values, value(s))
		}
		return request{path: []string{s.first(list, values...)}}
	}
}

// at returns a request with a path value.
func at(value func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request { return request{path: []string{value(s)}} }
}

// having returns a request with a body and path values.
func having(body func(*fixture) map[string]any, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		r := request{body: body(s)}
		for _, value := range path {
			r.path = append(r.path, value(s))
		}
		return r
	}
}

// field returns a change of one field of the body.
func field(name string, value func(*fixture) any) func(*fixture, *request) {
	return func(s *fixture, r *request) {
		body := maps.Clone(r.body.(map[string]any))
		body[name] = value(s)
		r.body = body
	}
}

func fixed(value any) func(*fixture) any { return func(*fixture) any { return value } }

func query(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	return values
}

var catalogExercises = map[string]exercise{
	"allergens.list":                  {request: plainly},
	"allergens.get":                   {request: firstOf("allergens.list")},
	"brands.list":                     {request: plainly},
	"brands.get":                      {request: firstOf("brands.list")},
	"ingredients.list":                {request: plainly},
	"ingredients.get":                 {request: firstOf("ingredients.list")},
	"practitioner_types.list":         {request: plainly},
	"products.list":                   {request: plainly},
	"products.search":                 {request: func(*fixture) request { return request{query: query("query", "magnesium")} }},
	"products.similar":                {request: at((*fixture).product)},
	"supplement_types.list":           {request: plainly},
	"supplement_types.get":            {request: firstOf("supplement_types.list")},
	"third_party_certifications.list": {request: plainly},
	"third_party_certifications.get":  {request: firstOf("third_party_certifications.list")},
	"variants.get":                    {request: at((*fixture).variant)},
	"products.get": {
		request: at((*fixture).product),
		refusals: []refusal{{"another clinic's practitioner", 422, func(_ *fixture, r *request) {
			r.query = query("practitioner_id", "nobody")
		}}},
	},
}
