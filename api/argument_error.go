package api

import (
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
	"net/http"
	"strings"
)

// ArgumentError reports an argument that is missing or unusable. Nothing was
// sent. It matches [ErrArgument] and names the field, never its value.
//
// A call reports all of its arguments that cannot be sent at once: one is an
// *ArgumentError, several are [ArgumentErrors]. [ProblemOf] reads both.
type ArgumentError struct {
	// Operation is the id of the call, for example "patients.create"; empty
	// where the argument belongs to no single call.
	Operation string

	// Field is the name that the request has for the argument: that of the JSON
	// body ("last_name", "metadata.id", "recommendations[0].units_to_purchase"), of
	// the route ("patient_id") or of the query ("completed_at", "page[size]"). What is
	// never sent has the name that it has in Go: fields of a constructor's
	// configuration ("tokens.Config.Store"), "Limit", "ClinicKey".
	Field string

	// Reason says what is wrong with it, for example "can't be blank". White space
	// alone is blank.
	Reason string

	// Err is a cause to match, such as [ErrInsecure]; mostly nil.
	Err error
}

// Error returns operation, field and reason.
func (e *ArgumentError) Error() string {
	var b strings.Builder
	b.WriteString("dispensary: ")
	if e.Operation != "" {
		b.WriteString(e.Operation + ": ")
	}
	b.WriteString(e.Field + " " + e.Reason)
	return b.String()
}

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

// Is makes every ArgumentError match [ErrArgument] and [ErrNotSent].
func (e *ArgumentError) Is(target error) bool {
	return target == ErrArgument || target == ErrNotSent
}

// ArgumentErrors are the arguments of one call that cannot be sent, all of them.
// Nothing was sent. [errors.As] finds the first as an [*ArgumentError], and
// [errors.Is] what any of them matches.
type ArgumentErrors []*ArgumentError

// Err returns nil for no error, the error itself for one, and e for more.
func (e ArgumentErrors) Err() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Error returns the errors' texts in one line; an operation stands there once.
func (e ArgumentErrors) Error() string {
	var b strings.Builder
	var operation string
	for i, one := range e {
		text := one.Error()
		if i > 0 {
			b.WriteString(", ")
			text = strings.TrimPrefix(text, "dispensary: ")
			if operation != "" && one.Operation == operation {
				text = strings.TrimPrefix(text, operation+": ")
			}
		}
		operation = one.Operation
		b.WriteString(text)
	}
	return b.String()
}

// Unwrap returns the errors.
func (e ArgumentErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// problem describes the arguments for a user. A name of Go was never a field of a form: no
// user can correct it.
func (e ArgumentErrors) problem() *Problem {
	messages := make([]detail.Message, len(e))
	for i, one := range e {
		if strings.ContainsAny(one.Field, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
			return newProblem(http.StatusInternalServerError, textUnknown)
		}
		messages[i] = detail.Message{Field: one.Field, Text: detail.Label(one.Field) + " " + one.Reason}
	}
	return invalid(messages)
}
