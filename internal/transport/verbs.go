package transport

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// One sends a call and returns the object in the response.
func One[T any](ctx context.Context, c *Client, call Call) (*T, error) {
	s, err := c.send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer s.release()
	return decodeOne[T](s)
}

// Do sends a call that returns no content. The response to a write must be a JSON object
// without an error.
func Do(ctx context.Context, c *Client, call Call) error {
	s, err := c.send(ctx, call)
	if err != nil {
		return err
	}
	defer s.release()
	return checkEmptySuccess(s)
}

// Pages returns the pages of a list one after the other, for calls that read a list
// internally. Unlike a list of [NewList], it supports [api.CaptureResponse].
func Pages[T any](ctx context.Context, c *Client, call Call) iter.Seq2[*api.Page[T], error] {
	return func(yield func(*api.Page[T], error) bool) {
		readPages(ctx, c, newListRun(newListCall(call), api.ListSettings{}), yield)
	}
}

// Raw sends a call to a path outside of the operation table and returns the unmodified body of
// the response. Its errors contain the route "(raw)", because the path comes from the caller
// and may contain anything.
func Raw(ctx context.Context, c *Client, method, path string, query url.Values, body any, options []api.RequestOption) ([]byte, error) {
	call, err := newRawCall(method, path, query, body, options)
	if err != nil {
		return nil, err
	}
	s, err := c.send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer s.release()
	if err := checkSuccess(s); err != nil {
		return nil, err
	}
	return bytes.Clone(s.last.body.Bytes()), nil
}

// newRawCall returns the call of a path outside of the operation table.
func newRawCall(method, path string, query url.Values, body any, options []api.RequestOption) (Call, error) {
	op := operation.New(operation.Operation{Name: "raw", Method: method, Route: "(raw)", ScopeVaries: true})
	call := Call{Operation: op, Query: query, Body: body, Options: options, path: path}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return call, call.invalid("Method", "must be GET, HEAD, POST, PUT, PATCH or DELETE")
	}
	plain, _, _ := rawPath(path)
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") || hasDotSegment(plain) {
		return call, call.invalid("Path", "must start with a slash, stay below the base URL and contain no query")
	}
	return call, nil
}

func hasDotSegment(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// newPipeline composes the links of every call, outermost first. Each link calls the next one.
func newPipeline() step {
	return compose(
		buildErrors,     // turns every failure into an *api.Error
		prepareRequest,  // checks the arguments, fetches no token and sends no request
		captureResponse, // stores status and headers for api.CaptureResponse
		authorize,       // token and scopes; one retry with a fresh token after a 401
		sendWithRetries, // limit, send, read, log; retries as the policy allows
	)
}

var pipeline = newPipeline()

// link is one step of the pipeline. next contains the links after it.
type link func(ctx context.Context, s *callState, next step) error

func compose(links ...link) step {
	var next step
	for _, outer := range slices.Backward(links) {
		inner := next
		next = func(ctx context.Context, s *callState) error { return outer(ctx, s, inner) }
	}
	return next
}

// send sends a call through the pipeline. On success the state contains the whole response,
// and the caller decodes and releases it. On failure send has already released the state.
func (c *Client) send(ctx context.Context, call Call) (*callState, error) {
	ctx, s := newCallState(ctx, c, call)
	if err := pipeline(ctx, s); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}
