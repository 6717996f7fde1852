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

// Operation is one route of the API.
type Operation struct {
	ID      string  // such as "platform.place_order"
	Method  string  // HTTP method
	Path    string  // relative to the API, with parameters in braces
	Summary string  // one sentence
	Query   []Query // allowed query parameters

	// Body is the struct type of the JSON request body. Nil means no body.
	Body reflect.Type

	response reflect.Type // type of the response, or of the rows of a page
	key      string       // JSON name of the rows, "" if the response is not a page
	run      func(c *call, body []byte) (any, error)
}

// Operations returns all routes, in the order of the OpenAPI document.
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
	Number  bool // the value must be a whole number
}

// Field is a field of a request body.
type Field struct {
	Name string       // JSON name
	Type reflect.Type // Go type
}

// Fields returns the allowed fields of the request body, or nil if there is no body.
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

// Parameters returns the names of the path parameters.
func (o Operation) Parameters() []string {
	var names []string
	for segment := range strings.SplitSeq(o.Path, "/") {
		if strings.HasPrefix(segment, "{") {
			names = append(names, strings.Trim(segment, "{}"))
		}
	}
	return names
}

// call is one request to the platform.
type call struct {
	ctx     context.Context
	fake    *dispensarytest.Server
	options Options
	path    func(name string) string
	query   url.Values
}

// userLike returns the user with this id or email address. An empty name means the first
// practitioner.
func (c *call) userLike(name string) (model.User, error) {
	for _, u := range c.fake.Users() {
		if name == "" || name == u.ID || name == u.Email {
			return u, nil
		}
	}
	return model.User{}, &problem{status: 404, message: "no user has the id or e-mail address " + name}
}

// number returns a query parameter, or -1 if it is missing.
func (c *call) number(name string) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, invalid("%s must be a whole number", name)
	}
	return n, nil
}

// duration returns a query parameter such as "5s", or fallback if it is missing. The largest
// allowed value is most.
func (c *call) duration(name string, fallback, most time.Duration) (time.Duration, error) {
	text := c.query.Get(name)
	if text == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > most {
		return 0, invalid("%s must be a duration such as 5s, at most %s", name, most)
	}
	return d, nil
}

// read defines an operation that changes nothing.
func read[A any](id, path, summary string, run func(c *call) (A, error)) Operation {
	return Operation{
		ID: id, Method: http.MethodGet, Path: path, Summary: summary,
		response: reflect.TypeFor[A](),
		run:      func(c *call, _ []byte) (any, error) { return run(c) },
	}
}

// act defines an operation that changes state and has a request body.
func act[B, A any](id, method, path, summary string, run func(c *call, in B) (A, error)) Operation {
	return Operation{
		ID: id, Method: method, Path: path, Summary: summary,
		Body: reflect.TypeFor[B](), response: reflect.TypeFor[A](),
		run: func(c *call, body []byte) (any, error) {
			var in B
			if err := decode(body, &in); err != nil {
				return nil, err
			}
			return run(c, in)
		},
	}
}

// nothing is an empty request or response body.
type nothing struct{}

// do defines an operation that changes state and has no request body.
func do[A any](id, method, path, summary string, run func(c *call) (A, error)) Operation {
	op := act(id, method, path, summary, func(c *call, _ nothing) (A, error) { return run(c) })
	op.Body = nil
	return op
}
