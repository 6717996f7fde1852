package control

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Operation is one row of the API's route table.
type Operation struct {
	ID      string  // "platform.place_order"
	Method  string  // of HTTP
	Path    string  // below the API's address; parameters in braces
	Summary string  // what it does, in a sentence
	Query   []Query // the query parameters it knows

	// Body is the struct that a request's JSON body fills, nil when it takes
	// none.
	Body reflect.Type

	answer reflect.Type // what it answers with
	key    string       // of the rows in a page, "" if the answer is no page
	run    func(c *call, body []byte) (any, error)
}

// Operations returns the API's route table, in the order of its contract.
func Operations() []Operation {
	return slices.Concat(
		platformOperations(), clockOperations(), tokenOperations(),
		webhookOperations(), faultOperations(), behaviorOperations(), journalOperations(),
		worldOperations(), patientOperations(), planOperations(), catalogOperations(), clinicOperations(),
	)
}

// Query is a query parameter.
type Query struct {
	Name    string
	Summary string
	Number  bool // a whole number, not a text
}

// Field is a field of a request's body.
type Field struct {
	Name string       // in JSON
	Type reflect.Type // in Go
}

// Fields lists what a request's body may have.
func (o Operation) Fields() []Field {
	if o.Body == nil {
		return nil
	}
	var fields []Field
	for _, f := range fieldsOf(o.Body) {
		fields = append(fields, Field{Name: f.name, Type: f.kind})
	}
	return fields
}

// Parameters lists the names of the path's parameters.
func (o Operation) Parameters() []string {
	var names []string
	for segment := range strings.SplitSeq(o.Path, "/") {
		if strings.HasPrefix(segment, "{") {
			names = append(names, strings.Trim(segment, "{}"))
		}
	}
	return names
}

// call is one request on its way to the platform.
type call struct {
	ctx     context.Context
	fake    *dispensarytest.Server
	options Options
	path    func(name string) string
	query   url.Values
}

// userLike finds a user who can sign in, by id or e-mail address; "" means the first
// practitioner.
func (c *call) userLike(name string) (model.User, error) {
	for _, u := range c.fake.Users() {
		if name == "" || name == u.ID || name == u.Email {
			return u, nil
		}
	}
	return model.User{}, &problem{status: 404, message: "no user who can sign in has the id or e-mail address " + name}
}

// number reads a query parameter; absent, it is -1.
func (c *call) number(name string) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, invalid("%s is not a whole number", name)
	}
	return n, nil
}

// duration reads a query parameter such as "5s".
func (c *call) duration(name string, fallback, most time.Duration) (time.Duration, error) {
	text := c.query.Get(name)
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		return 0, invalid("%s is not a duration such as 5s, of %s at most", name, most)
	}
	return d, nil
}

// read makes an operation that looks.
func read[A any](id, path, summary string, run func(c *call) (A, error)) Operation {
	return Operation{
		ID: id, Method: http.MethodGet, Path: path, Summary: summary,
		answer: reflect.TypeFor[A](),
		run:    func(c *call, _ []byte) (any, error) { return run(c) },
	}
}

// act makes an operation that changes something, and takes a body.
func act[B, A any](id, method, path, summary string, run func(c *call, in B) (A, error)) Operation {
	return Operation{
		ID: id, Method: method, Path: path, Summary: summary,
		Body: reflect.TypeFor[B](), answer: reflect.TypeFor[A](),
		run: func(c *call, body []byte) (any, error) {
			var in B
			if err := decode(body, &in); err != nil {
				return nil, err
			}
			return run(c, in)
		},
	}
}

// nothing is the body or the answer of operations that have none to speak of.
type nothing struct{}

// do is act without a body.
func do[A any](id, method, path, summary string, run func(c *call) (A, error)) Operation {
	op := act(id, method, path, summary, func(c *call, _ nothing) (A, error) { return run(c) })
	op.Body = nil
	return op
}
