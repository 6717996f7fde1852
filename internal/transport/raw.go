package transport

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// Raw sends a call to a path that the operation table does not know and returns
// the body of the answer as it is. Its errors name the route "(raw)": the path
// is the caller's and may hold anything.
func Raw(ctx context.Context, c *Client, method, path string, query url.Values, body any, options []api.RequestOption) ([]byte, error) {
	op := operation.New(operation.Operation{Name: "raw", Method: method, Route: "(raw)", ScopeVaries: true})
	call := Call{Operation: op, Body: body, Options: options, path: path, encodedQuery: query.Encode()}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, argumentError(&call, "Method", "must be an HTTP method in capitals")
	}
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || hasDotSegment(path) {
		return nil, argumentError(&call, "Path", "must start with a slash, be below the base address and hold no query")
	}
	x, err := c.send(ctx, &call)
	if err != nil {
		return nil, err
	}
	defer x.release()
	return bytes.Clone(x.body.Bytes()), nil
}

func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}
