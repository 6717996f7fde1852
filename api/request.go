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
	Header    http.Header
	Captures  []*Response
	NoRetries bool
	ClinicKey *Secret   // nil leaves that of the client
	Priority  *Priority // nil leaves that of the context
}

// RequestOption changes a single call. Every method that sends a request takes
// any number of them last. A nil RequestOption changes nothing.
type RequestOption func(*RequestSettings)

// WithHeader adds a header to the request. Headers that the client owns
// (Authorization, Host, Content-Type, Content-Length, the clinic key) cannot be
// set this way, nor names and values that HTTP does not allow: the call fails with
// an [ArgumentError] and sends nothing. Writes also reject Idempotency-Key and
// X-Idempotency-Key. The platform ignores them, but net/http repeats such a request if
// its connection breaks. The Ensure methods create a record once.
func WithHeader(name, value string) RequestOption {
	return func(s *RequestSettings) {
		if s.Header == nil {
			s.Header = http.Header{}
		}
		s.Header.Add(name, value)
	}
}

// ForClinicKey sends the key of a clinic with the request, in place of the client's.
// A key that is empty, or that no header can carry, makes the call fail with an
// [ArgumentError] and sends nothing.
// API section: "Authentication" 9.
func ForClinicKey(key Secret) RequestOption {
	return func(s *RequestSettings) { s.ClinicKey = &key }
}

// CaptureResponse stores status, headers and request id of the answer in
// response, on success and on failure. A list stores the answer of each page when the
// caller takes the page, with [Paging.Prefetch] too. Calls at the same time need a
// response each.
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
