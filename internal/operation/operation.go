// Package operation contains the table of all endpoints of the platform's API as data, one row
// for each. The client builds requests from the rows, errors and logs name calls by them, and
// tests compare them with the services, the fake platform and the published contract in both
// directions.
package operation

import (
	"iter"
	"strings"

	"github.com/dispensary-go/dispensary/api"
)

// Operation is one row of the table.
type Operation struct {
	// Name is the stable id, resource first: "patients.create". It names a call in errors,
	// logs and spans.
	Name string

	Method string

	// Route is the path below the base URL, with parameters in braces.
	Route string

	// Key is the JSON key around the content of the response, or empty if the response has no
	// such key.
	Key string

	// List marks responses with items and meta.
	List bool

	// Scope is the scope that the token needs. Several scopes are separated by a space. It is
	// empty if the operation needs no token or if the scope varies.
	Scope string

	// ScopeStated means that the API states the scopes for the endpoint. All others are an
	// assumption, derived from the descriptions of the scopes.
	ScopeStated bool

	// ScopeVaries means that the required scope depends on the request. Scope is then one of
	// the possible scopes, or empty.
	ScopeVaries bool

	// Deprecated marks endpoints that the API has replaced.
	Deprecated bool

	segments []segment
	read     bool
}

// segment is a piece of a route: text up to a parameter, and the name of the parameter.
type segment struct{ text, param string }

// Read reports whether the operation changes nothing, so it may be repeated.
func (o *Operation) Read() bool { return o.read }

// NeedsToken reports whether the request contains an access token.
func (o *Operation) NeedsToken() bool { return o.Scope != "" || o.ScopeVaries }

// Params yields the names of the route's parameters in order.
func (o *Operation) Params() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range o.segments {
			if s.param != "" && !yield(s.param) {
				return
			}
		}
	}
}

// Segments yields the route as pairs of literal text and the following parameter. The last
// pair may have no parameter.
func (o *Operation) Segments() iter.Seq2[string, string] {
	return func(yield func(text, param string) bool) {
		for _, s := range o.segments {
			if !yield(s.text, s.param) {
				return
			}
		}
	}
}

func (o *Operation) String() string { return o.Name }

// New returns an operation outside of the table and sets its derived fields.
func New(o Operation) *Operation {
	o.read = o.Method == "GET" || o.Method == "HEAD"
	o.segments = split(o.Route)
	return &o
}

func split(route string) []segment {
	var segments []segment
	for route != "" {
		text, rest, found := strings.Cut(route, "{")
		if !found {
			return append(segments, segment{text: text})
		}
		param, after, _ := strings.Cut(rest, "}")
		segments = append(segments, segment{text: text, param: param})
		route = after
	}
	return segments
}

// All returns all rows, including the authorize page, in the order of the API's sections.
func All() []*Operation { return append([]*Operation(nil), all...) }

var all []*Operation

// row adds an operation to the table. Go initializes variables in the order of their
// declaration, so the table has the order of the file.
func row(o Operation) *Operation {
	op := New(o)
	all = append(all, op)
	return op
}

// Scopes returns all scopes that this module knows, including scope groups.
func Scopes() []string {
	return []string{
		api.ScopeCatalogRead, api.ScopeClinic, api.ScopeClinicRead, api.ScopeClinicWrite, api.ScopePatients, api.ScopePatientsRead,
		api.ScopePatientsWrite, api.ScopeTreatmentPlanHistory, api.ScopeOrderHistory,
	}
}
