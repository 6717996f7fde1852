package api

import (
	"net/http"

	"github.com/dispensary-go/dispensary/internal/calloption"
)

// Response is what came with an answer beside its body. See [CaptureResponse].
type Response struct {
	// StatusCode is the HTTP status, 0 where no answer came.
	StatusCode int

	// Header holds the headers of the answer.
	Header http.Header

	// RequestID is the X-Request-Id of the answer, to quote when reporting a
	// problem to the platform.
	RequestID string

	// Attempts counts how often the request was sent, retries included.
	Attempts int
}

// RequestOption changes a single call. Every method that sends a request takes
// any number of them last. A nil RequestOption changes nothing.
type RequestOption func(*calloption.Settings)

// CaptureResponse stores status, headers and request id of the answer in
// response, on success and on failure. Calls at the same time need a response each. A list
// rejects it with an [*ArgumentError], because the pages of a list have a Response.
func CaptureResponse(response *Response) RequestOption {
	return func(s *calloption.Settings) {
		if response != nil {
			s.Captures = append(s.Captures, (*calloption.Response)(response))
		}
	}
}

// WithoutRetries sends the request once, whatever comes back.
func WithoutRetries() RequestOption {
	return func(s *calloption.Settings) { s.NoRetries = true }
}
