// Package hidden contains the parts of package api that other packages of this module need and its
// users must not see.
package hidden

import (
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// Detail contains the values that an api.Error returns by method. Each of them may be nil.
type Detail struct {
	Cause    error
	Body     []byte // of the response
	Messages []Message
}

// Attach stores the detail of err, which must be an *api.Error. Package api sets Attach when
// the program starts.
var Attach func(err error, d Detail)

// Message is a sentence in a response about the request.
type Message struct {
	// Field is the JSON name of the request field: "last_name", "metadata.id",
	// "recommendations[0].variant_id". It is empty if the message is not about a single field
	// or does not name one.
	Field string

	// Text is a sentence, for example "Last name can't be blank". It may repeat input, so do
	// not log it.
	Text string
}

// Label returns the name of a field as messages write it: "Last name" for "last_name",
// "Practitioner" for "practitioner_id".
func Label(field string) string {
	label := strings.ReplaceAll(strings.TrimSuffix(field, "_id"), "_", " ")
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + label[size:]
}

// PriorityKey is the key of a context value of type api.Priority.
type PriorityKey struct{}
