// Package operation is the table of everything the platform's API offers: one
// row an endpoint, as data. The client sends what the rows say, errors and logs
// name calls by them, and tests compare the services, the fake platform and the
// published contract with them in both directions.
package operation

import (
	"iter"
	"strings"
)

// Operation is one row of the table.
type Operation struct {
	// Name is the stable id, resource first: "patients.create". Errors, logs
	// and spans name a call by it.
	Name string

	Method string

	// Route is the path below the base address, parameters in braces.
	Route string

	// Key is the key the response wraps its content in; empty where the
	// response is not wrapped.
	Key string

	// List marks responses with items and meta.
	List bool

	// Scope is what the token needs, several scopes separated by a space;
	// empty where no token is needed, or where it varies.
	Scope string

	// ScopeStated marks the scopes that the API states for the endpoint. All
	// others are an assumption that follows from what the scopes grant.
	ScopeStated bool

	// ScopeVaries marks an operation whose scope depends on what is asked for;
	// Scope is one of those, or empty.
	ScopeVaries bool

	// Deprecated marks endpoints that the API has replaced.
	Deprecated bool

	segments []segment
	read     bool
}

// segment is a piece of a route: text up to a parameter, then its name.
type segment struct{ text, param string }

// Read reports that the operation changes nothing, so that it may be repeated.
func (o *Operation) Read() bool { return o.read }

// NeedsToken reports that the request carries an access token.
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

// Segments yields the route as pairs of literal text and the parameter after
// it; the last pair may have no parameter.
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

// New returns an operation outside the table, with its derived parts filled in.
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

// All returns every row, the authorize page included, in the order of the API's
// sections.
func All() []*Operation { return append([]*Operation(nil), all...) }

var all []*Operation

// row adds an operation to the table. Variables are initialized in the order
// they are declared, so the table keeps the order of the file.
func row(o Operation) *Operation {
	op := New(o)
	all = append(all, op)
	return op
}
