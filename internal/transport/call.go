package transport

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/go-querystring/query"
	"github.com/hashicorp/go-retryablehttp"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

const clinicKeyHeader = "X-Svc-Clinic-Key"

// Call is one call of an operation.
type Call struct {
	Operation *operation.Operation

	// Path holds the route's parameters in order.
	Path []string

	// Query is a struct with url tags, url.Values, or nil.
	Query any

	// Body is encoded as JSON; nil sends none.
	Body any

	Options []api.RequestOption

	// encodedQuery replaces Query where a walk has encoded it already.
	encodedQuery string
	// path replaces the route's path in a raw call.
	path string
}

// newRequest builds the HTTP request of a call, without its authorization. Its
// errors are about arguments: nothing was sent.
func (c *Client) newRequest(ctx context.Context, call *Call, settings *api.RequestSettings) (*retryablehttp.Request, error) {
	header := make(http.Header, len(c.header)+3)
	for name, values := range c.header {
		header[name] = values
	}
	problem := c.clinicKeyProblem
	if settings.ClinicKey != nil {
		problem = setClinicKey(header, *settings.ClinicKey)
	}
	if problem != "" {
		return nil, argumentError(call, "ClinicKey", problem)
	}
	if err := addHeaders(header, call, settings.Header); err != nil {
		return nil, err
	}
	u, err := c.url(call)
	if err != nil {
		return nil, err
	}
	request := &http.Request{
		Method: call.Operation.Method, URL: u, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	retryable := &retryablehttp.Request{Request: request.WithContext(ctx)}
	if call.Body != nil {
		body, err := json.Marshal(call.Body)
		if err != nil {
			// The encoder's text may hold the value that it could not encode.
			return nil, argumentError(call, "body", "cannot be encoded as JSON")
		}
		header["Content-Type"] = contentTypeJSON
		if err := retryable.SetBody(body); err != nil {
			return nil, argumentError(call, "body", "cannot be sent")
		}
	}
	return retryable, nil
}

var contentTypeJSON = []string{"application/json"}

func (c *Client) url(call *Call) (*url.URL, error) {
	plain, escaped := call.path, (&url.URL{Path: call.path}).EscapedPath()
	if plain == "" {
		var err error
		if plain, escaped, err = expand(call); err != nil {
			return nil, err
		}
	}
	u := *c.base
	if escaped != plain || u.RawPath != "" {
		u.RawPath = c.base.EscapedPath() + escaped
	}
	u.Path += plain
	u.RawQuery = call.encodedQuery
	if u.RawQuery == "" && call.Query != nil {
		values, err := encodeQuery(call)
		if err != nil {
			return nil, err
		}
		u.RawQuery = values
	}
	return &u, nil
}

// expand fills the route's parameters in, as they are and percent-encoded.
func expand(call *Call) (plain, escaped string, err error) {
	var path, raw strings.Builder
	var next int
	for text, param := range call.Operation.Segments() {
		path.WriteString(text)
		raw.WriteString(text)
		if param == "" {
			continue
		}
		var value string
		if next < len(call.Path) {
			value = call.Path[next]
			next++
		}
		// A dot segment would be resolved away and reach another endpoint.
		if value == "" || value == "." || value == ".." {
			return "", "", argumentError(call, param, "must be an id")
		}
		path.WriteString(value)
		raw.WriteString(url.PathEscape(value))
	}
	return path.String(), raw.String(), nil
}

func encodeQuery(call *Call) (string, error) {
	if values, ok := call.Query.(url.Values); ok {
		return values.Encode(), nil
	}
	values, err := query.Values(call.Query)
	if err != nil {
		// Query types check themselves and name the field; any other text
		// could hold a value.
		var argument *api.ArgumentError
		if errors.As(err, &argument) {
			argument.Operation = call.Operation.Name
			return "", argument
		}
		return "", argumentError(call, "query", "cannot be encoded")
	}
	return values.Encode(), nil
}

func argumentError(call *Call, field, reason string) *api.ArgumentError {
	return &api.ArgumentError{Operation: call.Operation.Name, Field: field, Reason: reason}
}
