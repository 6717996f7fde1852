package api

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Message is one thing that an answer says to people about what was sent.
type Message struct {
	// Field is the field of the request that it is about, as JSON names it:
	// "last_name", "metadata.id", "recommendations[0].variant_id". It is empty where
	// the message is about no single field, or does not let know which.
	Field string

	// Text is a sentence, for example "Last name can't be blank". It may repeat what
	// was sent: do not log it.
	Text string
}

// FieldLabel returns a field's name as messages write it: "last_name" is "Last name",
// "practitioner_id" is "Practitioner".
func FieldLabel(field string) string {
	label := strings.ReplaceAll(strings.TrimSuffix(field, "_id"), "_", " ")
	first, size := utf8.DecodeRuneInString(label)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + label[size:]
}
