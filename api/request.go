package api

import (
	"net/http"

	"github.com/dispensary-go/dispensary/internal/calloption"
)

// Response contains the metadata of a response. See [CaptureResponse].
type Response struct {
	// StatusCode is the HTTP status, or 0 if there was no response.
	StatusCode int

	// Header contains the headers of the response.
	Header http.Header

	// RequestID is the X-Request-Id of the response. Quote it if you report a problem to the
	// platform.
	RequestID string

	// Attempts is the number of times that the request was sent, including retries.
	Attempts int
}

// RequestOption changes a single call. Every method that sends a request accepts any number of
// them as its last arguments. A nil RequestOption changes nothing.
type RequestOption func(*calloption.Settings)

// CaptureResponse stores the status, headers and request ID of the response in response, on
// success and on failure. Concurrent calls need one Response each. A list rejects the option
// with an [*ArgumentError], because each [Page] contains its Response.
func CaptureResponse(response *Response) RequestOption {
	return func(s *calloption.Settings) {
		if response != nil {
			s.Captures = append(s.Captures, (*calloption.Response)(response))
		}
	}
}

// WithoutRetries sends the request only once, even if it fails.
func WithoutRetries() RequestOption {
	return func(s *calloption.Settings) { s.NoRetries = true }
}
