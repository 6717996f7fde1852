package hidden

import "net/http"

// CallSettings are the settings of a single call. Package api and the services create options from
// them, and package transport applies them. The zero value is a call without options.
type CallSettings struct {
	// Captures receive the response.
	Captures []*Response

	// NoRetries sends the request once.
	NoRetries bool

	// PractitionerID is the query parameter practitioner_id. A call without this parameter
	// fails.
	PractitionerID string
}

// Response has the same fields as api.Response, so a pointer to one converts to a pointer to
// the other.
type Response struct {
	StatusCode int
	Header     http.Header
	RequestID  string
	Attempts   int
}
