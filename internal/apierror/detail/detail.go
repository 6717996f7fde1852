// Package detail has the parts of an api.Error that printing must not reach.
package detail

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Detail is what an api.Error returns by method. Each part may be nil.
type Detail struct {
	Cause    error
	Body     []byte // of the response
	Messages []Message
}

// Attach stores the detail of an error, which must be an *api.Error. Package api sets it
// when the program starts.
var Attach func(err error, d Detail)

// Message is a sentence of a response about the request.
type Message struct {
	// Field is the field of the request that it is about, as JSON names it:
	// "last_name", "metadata.id", "recommendations[0].variant_id". It is empty if the message
	// is about no single field, or does not name it.
	Field string

	// Text is a sentence, for example "Last name can't be blank". It may repeat input, so do
	// not log it.
	Text string
}

// Label returns a field's name as messages write it: "last_name" is "Last name",
// "practitioner_id" is "Practitioner".
func Label(field string) string {
	label := strings.ReplaceAll(strings.TrimSuffix(field, "_id"), "_", " ")
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + label[size:]
}
