package api

import (
	"errors"
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

// FieldErrors returns what is wrong with the input of a call by field, for a form that
// shows each message beside its field. It is the same for what this module found out
// before it sent anything ([ArgumentError], [ArgumentErrors]), for what the platform
// refused ([Error]) and for what an Ensure call found in the way ([EnsureError]); so it is
// for every error with a method Fields, such as treatmentplans.UnavailableError.
//
// Keys are names of the request's fields as JSON has them: "last_name", "metadata.id",
// "recommendations[0].variant_id". Under "" is what is about no single field, or what
// does not let know which it is about: show it above the form. Messages are sentences,
// in the order in which they were found; they may repeat what was sent, so do not log them.
//
// It returns nil where err is not about the input: nil, no answer, a token that is
// refused, an unknown record, a server error. Which statuses are about the input
// is an assumption, those of [ErrValidation].
// API section: "Errors".
func FieldErrors(err error) map[string][]string {
	var failure interface {
		error
		Fields() map[string][]string
	}
	if !errors.As(err, &failure) {
		return nil
	}
	if answer, ok := failure.(*Error); ok && (!answer.Is(ErrValidation) || answer.Code != "") {
		return nil // a code is OAuth's
	}
	return failure.Fields()
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

// byField groups messages; nil for none.
func byField(messages []Message) map[string][]string {
	if len(messages) == 0 {
		return nil
	}
	fields := map[string][]string{}
	for _, m := range messages {
		fields[m.Field] = append(fields[m.Field], m.Text)
	}
	return fields
}
