// Package calloption has the settings of a single call. Package api and the services make
// options of them, and package transport obeys them.
package calloption

import "net/http"

// Settings are the settings of a call. The zero value is a call without options.
type Settings struct {
	// Captures receive the response.
	Captures []*Response

	// NoRetries sends the request once.
	NoRetries bool

	// PractitionerID is the query parameter practitioner_id of a call that has it. Other
	// calls fail.
	PractitionerID string
}

// Response has the fields of api.Response, so a pointer to one converts to the other.
type Response struct {
	StatusCode int
	Header     http.Header
	RequestID  string
	Attempts   int
}
