package api

import "net/http"

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

// RequestSettings is what request options set. Callers use the options; the
// struct is exported because another package of this module sends the requests.
type RequestSettings struct {
	Captures  []*Response
	NoRetries bool
}

// RequestOption changes a single call. Every method that sends a request takes
// any number of them last. A nil RequestOption changes nothing.
type RequestOption func(*RequestSettings)

// CaptureResponse stores status, headers and request id of the answer in
// response, on success and on failure. Calls at the same time need a response each. A list
// rejects it with an [*ArgumentError], because the pages of a list have a Response.
func CaptureResponse(response *Response) RequestOption {
	return func(s *RequestSettings) {
		if response != nil {
			s.Captures = append(s.Captures, response)
		}
	}
}

// WithoutRetries sends the request once, whatever comes back.
func WithoutRetries() RequestOption {
	return func(s *RequestSettings) { s.NoRetries = true }
}
