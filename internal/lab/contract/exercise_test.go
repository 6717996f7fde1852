package contract_test

import (
	"maps"
	"net/url"
	"slices"
)

// exercise says how an operation is called: once with success, and where it refuses more
// than what follows from the document.
type exercise struct {
	// request is a call that succeeds; the token is added to it.
	request func(s *fixture) request
	status  int // 0 is 200

	// scopes are what the request's token needs where that depends on what is asked for,
	// in place of the document's.
	scopes []string

	// refusals are calls that fail for reasons of the platform's own.
	refusals []refusal
}

type refusal struct {
	name   string
	status int
	change func(s *fixture, r *request) // of the successful request
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

// plainly calls an operation that needs nothing.
func plainly(*fixture) request { return request{} }

// firstOf calls an operation with the first item of a list.
func firstOf(list string, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		var values []string
		for _, value := range path {
			values = append(values, value(s))
		}
		return request{path: []string{s.first(list, values...)}}
	}
}

// at calls an operation with a path value.
func at(value func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request { return request{path: []string{value(s)}} }
}

// having calls an operation with a body.
func having(body func(*fixture) map[string]any, path ...func(*fixture) string) func(*fixture) request {
	return func(s *fixture) request {
		r := request{body: body(s)}
		for _, value := range path {
			r.path = append(r.path, value(s))
		}
		return r
	}
}

// field changes one field of the body.
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
