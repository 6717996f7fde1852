package api

import (
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"net/http"
	"strings"
)

// ArgumentError reports an argument that is missing or invalid. The client sent nothing. The
// error matches [ErrArgument] and names the field, but never contains its value.
//
// A call reports all of its invalid arguments at once: one as an *ArgumentError, several as
// [ArgumentErrors]. [ProblemOf] reads both.
type ArgumentError struct {
	// Operation is the ID of the call, for example "patients.create". It is empty if the
	// argument belongs to no single call.
	Operation string

	// Field is the name of the argument in the request: in the JSON body ("last_name",
	// "metadata.id", "recommendations[0].units_to_purchase"), in the route ("patient_id") or in
	// the query ("completed_at", "page[size]"). An argument that is never sent has its Go name:
	// a field of a constructor's configuration ("tokens.Config.Store"), "Limit", "ClinicKey".
	// An element of a record has its path ("Patient.birthDate").
	Field string

	// Record reports whether Field is a path in a record of the EHR. A person can correct it, so
	// [ProblemOf] describes it like a field of a request.
	Record bool

	// Reason describes the mistake, for example "can't be blank". White space alone counts as
	// blank.
	Reason string

	// Err is the cause to match, such as [ErrInsecure]. It is usually nil.
	Err error
}

// Error returns operation, field and reason.
func (e *ArgumentError) Error() string {
	if e == nil {
		return nilText
	}
	var b strings.Builder
	b.WriteString("dispensary: ")
	if e.Operation != "" {
		b.WriteString(e.Operation + ": ")
	}
	b.WriteString(e.Field + " " + e.Reason)
	return b.String()
}

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Is reports whether target is [ErrArgument] or [ErrNotSent].
func (e *ArgumentError) Is(target error) bool {
	return e != nil && (target == ErrArgument || target == ErrNotSent)
}

// ArgumentErrors lists all invalid arguments of one call. The client sent nothing. [errors.As]
// finds the first one as an [*ArgumentError]. [errors.Is] matches if any of them does.
type ArgumentErrors []*ArgumentError

// Err returns nil if e is empty, the error itself if there is only one, and e otherwise.
func (e ArgumentErrors) Err() error {
	switch len(e) {
	case 0:
		return nil
	case 1:
		return e[0]
	}
	return e
}

// Error returns the texts of all errors in one line, with each operation only once.
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

// Unwrap returns the single errors for [errors.Is] and [errors.As].
func (e ArgumentErrors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}

// problem describes the arguments for the user. An argument with a Go name is neither a field of a
// form nor in a record, so the user cannot correct it.
func (e ArgumentErrors) problem() *Problem {
	messages := make([]hidden.Message, len(e))
	for i, one := range e {
		if strings.ContainsAny(one.Field, unsent) && !one.Record {
			return newProblem(http.StatusInternalServerError, textUnknown)
		}
		messages[i] = hidden.Message{Field: one.Field, Text: hidden.Label(one.Field) + " " + one.Reason}
	}
	return invalid(messages)
}

// unsent contains characters that no field of a request has, but Go names do.
const unsent = " ABCDEFGHIJKLMNOPQRSTUVWXYZ"
