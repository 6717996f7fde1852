package contract

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/santhosh-tekuri/jsonschema/v6"

	table "github.com/dispensary-go/dispensary/internal/operation"
)

// body is the content of a message, by media type. A nil schema accepts any text.
type body struct {
	content  map[string]*jsonschema.Schema
	required bool
}

// check returns the violations of a body.
func (b body) check(contentType string, data []byte) []string {
	switch {
	case len(data) == 0 && b.required:
		return []string{"body: required"}
	case len(data) == 0:
		return nil
	case len(b.content) == 0:
		return []string{"body: unknown"}
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	schema, known := b.content[mediaType]
	if err != nil || !known {
		return []string{"header Content-Type: unknown"}
	}
	if schema == nil {
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		return []string{fmt.Sprintf("body: %v", err)}
	}
	return nil
}

// response is a response of the document.
type response struct {
	headers map[string]header
	body    body
}

type header struct {
	required bool
	schema   *jsonschema.Schema
}

// check returns the violations of a response. A response without content in the document
// may have any body.
func (r response) check(resp *http.Response, data []byte) []string {
	var violations []string
	for _, name := range slices.Sorted(maps.Keys(r.headers)) {
		want, values := r.headers[name], resp.Header.Values(name)
		if len(values) == 0 && want.required {
			violations = append(violations, "header "+name+": required")
		}
		for _, value := range values {
			if err := want.schema.Validate(value); err != nil {
				violations = append(violations, fmt.Sprintf("header %s: %v", name, err))
			}
		}
	}
	if len(r.body.content) > 0 {
		violations = append(violations, r.body.check(resp.Header.Get("Content-Type"), data)...)
	}
	return violations
}

// checkResponse checks a response against the document's response for its status, its class or the
// default.
func (o *operation) checkResponse(resp *http.Response, body []byte) []string {
	status := strconv.Itoa(resp.StatusCode)
	for _, key := range []string{status, status[:1] + "XX", "default"} {
		if expected, known := o.responses[key]; known {
			return expected.check(resp, body)
		}
	}
	return []string{"status " + status + ": unknown"}
}

func (v *Validator) checkRequest(op *operation, req *http.Request, body []byte) []string {
	var violations []string
	params, matches := op.match(req.URL.EscapedPath())
	if req.Method != op.route.Method || !matches {
		violations = append(violations, "method or path: mismatch")
	}
	// A request does not contain the scopes of its token.
	if _, needed := v.scopes(op.route.Operation); needed && !strings.HasPrefix(req.Header.Get("Authorization"), "Bearer ") {
		violations = append(violations, "header Authorization: required")
	}
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		violations = append(violations, "query: malformed")
	}
	violations = append(violations, checkParameters(op, req, params, query)...)
	return append(violations, op.request.check(req.Header.Get("Content-Type"), body)...)
}

// match returns the parameters of the route at the end of an escaped path, after the base URL. A
// webhook has no route, because the integrator chooses its URL.
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

// scopes returns the scopes of the operation's token, or false if it needs no token.
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

// checkParameters returns the violations of the parameters, and unknown query parameters.
func checkParameters(op *operation, req *http.Request, path map[string]string, query url.Values) []string {
	input := &openapi3filter.RequestValidationInput{
		Request: req, PathParams: path, QueryParams: query, Route: op.route,
		// The filter would write defaults into the request.
		Options: &openapi3filter.Options{MultiError: true, SkipSettingDefaults: true},
	}
	var violations []string
	unknown := maps.Clone(query)
	for _, ref := range slices.Concat(op.route.PathItem.Parameters, op.route.Operation.Parameters) {
		if err := openapi3filter.ValidateParameter(context.Background(), input, ref.Value); err != nil {
			violations = append(violations, fmt.Sprintf("%s %s: %v", ref.Value.In, ref.Value.Name, err))
		}
		if ref.Value.In == openapi3.ParameterInQuery {
			delete(unknown, ref.Value.Name)
		}
	}
	for name := range unknown {
		violations = append(violations, "query "+name+": unknown")
	}
	return violations
}

// Exchange is a request and its response, with the bodies read.
type Exchange struct {
	Request      *http.Request
	RequestBody  []byte
	Response     *http.Response
	ResponseBody []byte
}

// Recorder is an [http.RoundTripper] that stores the exchanges of sequential calls.
type Recorder struct {
	Base      http.RoundTripper
	Exchanges []Exchange // in the order of the responses
}

// RoundTrip sends the request and stores the exchange. It reads the response to its end.
func (r *Recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		sent.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := r.Base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	response, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(response))
	r.Exchanges = append(r.Exchanges, Exchange{sent, body, resp, response})
	return resp, nil
}

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
