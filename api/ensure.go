package api

import (
	"fmt"
	"github.com/dispensary-go/dispensary/internal/apierror/detail"
	"net/http"
	"strings"
)

// EnsureError says why an Ensure call could not end with exactly one record, and
// what is known. A ByMetadataID call returns it if several records carry the id. Its text
// holds ids of the platform only, never the integrator's or an e-mail.
type EnsureError struct {
	// Operation is the id of the create call, for example "patients.create", or
	// "metadata.list" for ByMetadataID.
	Operation string

	// Reason says why the call failed.
	Reason EnsureReason

	// Field is the field of the record whose value is taken, as JSON names it:
	// "email" or "metadata.id". It is empty unless Reason is [EnsureReasonTaken] or
	// [EnsureReasonContradicted].
	Field string

	// IDs are the platform's ids of the records that were found or created.
	IDs []string

	// Err is the error of the create call. It is nil if no create call failed.
	Err error
}

// EnsureReason is a short code for the cause of a failed Ensure call.
type EnsureReason string

// The reasons.
const (
	// EnsureReasonAmbiguous: several records carry the metadata id. Decide which one
	// is meant, and remove the id from the others: update them with empty metadata.
	EnsureReasonAmbiguous EnsureReason = "ambiguous"

	// EnsureReasonTaken: a record that must be unique exists under another metadata
	// id, or the metadata id is on a record of another owner.
	EnsureReasonTaken EnsureReason = "taken"

	// EnsureReasonContradicted: a patient has the e-mail, but another name or date of birth.
	// A parent's e-mail on a child's record is a frequent cause. Ensure did not change
	// the patient. Compare the two records before you use the one in IDs.
	EnsureReasonContradicted EnsureReason = "contradicted"

	// EnsureReasonAltered: the platform stored the record under another metadata id than the
	// call sent, or under none. Ensure cannot find such a record again. Store the id in
	// IDs with your own record and do not ensure this metadata id again: another process
	// would create another record.
	EnsureReasonAltered EnsureReason = "altered"

	// EnsureReasonUnknown: a create call may have been applied, and no record has
	// appeared since. Call Ensure again later: it looks before it creates.
	EnsureReasonUnknown EnsureReason = "unknown"
)

// Error returns operation, field, reason and ids.
func (e *EnsureError) Error() string {
	text := fmt.Sprintf("dispensary: %s: ", e.Operation)
	if e.Field != "" {
		text += e.Field + ": "
	}
	text += e.Reason.sentence()
	if len(e.IDs) > 0 {
		text += " (" + strings.Join(e.IDs, ", ") + ")"
	}
	if e.Err != nil {
		text += ": " + strings.TrimPrefix(e.Err.Error(), "dispensary: ")
	}
	return text
}

// sentence returns the reason as part of an error's text, or the code of an unknown reason.
func (r EnsureReason) sentence() string {
	switch r {
	case EnsureReasonAmbiguous:
		return "several records carry the metadata id"
	case EnsureReasonTaken:
		return "a record is in the way that belongs to another metadata id or owner"
	case EnsureReasonContradicted:
		return "a record with this e-mail has another name or date of birth"
	case EnsureReasonAltered:
		return "the record was stored under another metadata id"
	case EnsureReasonUnknown:
		return "a create call may have been applied, but no record has appeared"
	}
	return string(r)
}

// Unwrap returns the create call's error; it matches [ErrMaybeApplied] where the
// reason is [EnsureReasonUnknown].
func (e *EnsureError) Unwrap() error { return e.Err }

// problem describes the error for a user, with a sentence such as the platform writes for
// the taken field.
func (e *EnsureError) problem() *Problem {
	switch {
	case e.Field != "":
		return invalid([]detail.Message{{Field: e.Field, Text: detail.Label(e.Field) + " has already been taken"}})
	case e.Reason == EnsureReasonUnknown:
		return newProblem(http.StatusBadGateway, textUnconfirmedEnsure)
	case e.Reason == EnsureReasonAmbiguous:
		return newProblem(http.StatusConflict, textAmbiguous)
	}
	return newProblem(http.StatusConflict, textConflict)
}
