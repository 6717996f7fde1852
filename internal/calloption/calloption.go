// Package calloption contains the settings of a single call. Package api and the services
// create options from them, and package transport applies them.
package calloption

import "net/http"

// Settings are the settings of a call. The zero value is a call without options.
type Settings struct {
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
