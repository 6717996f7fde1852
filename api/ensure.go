package api

import (
	"fmt"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"net/http"
	"strings"
)

// EnsureError reports why an Ensure call did not end with exactly one record, and the facts it
// found. A ByMetadataID call returns it if several records have the metadata ID. Its text
// contains only IDs of the platform, never your own ID or an e-mail address.
type EnsureError struct {
	// Operation is the ID of the create call, for example "patients.create", or "metadata.list"
	// for ByMetadataID.
	Operation string

	// Reason is the cause of the failure.
	Reason EnsureReason

	// Field is the JSON name of the field with the taken value: "email" or "metadata.id". It is
	// empty unless Reason is [EnsureReasonTaken] or [EnsureReasonContradicted].
	Field string

	// IDs are the platform's IDs of the records that Ensure found or created.
	IDs []string

	// Err is the error of the create call. It is nil if no create call failed.
	Err error
}

// EnsureReason is a short code for the cause of a failed Ensure call.
type EnsureReason string

// The reasons.
const (
	// EnsureReasonAmbiguous: several records have the metadata ID. Choose one of them and
	// remove the ID from the others by updating them with empty metadata.
	EnsureReasonAmbiguous EnsureReason = "ambiguous"

	// EnsureReasonTaken: a unique value belongs to a record with another metadata ID, or a
	// record of another owner has the metadata ID.
	EnsureReasonTaken EnsureReason = "taken"

	// EnsureReasonContradicted: a patient has the e-mail address, but another name or date of
	// birth. A frequent cause is a parent's e-mail address on a child's record. Ensure did not
	// change the patient. Compare the two records before you use the one in IDs.
	EnsureReasonContradicted EnsureReason = "contradicted"

	// EnsureReasonAltered: the platform stored the record without the metadata ID of the call,
	// or with another one. No lookup finds such a record. The process that created it creates
	// no other one for 24 hours, and an inbox does not retry the event. Store the ID in IDs with
	// your own record, and do not ensure this metadata ID again, because another process would
	// create another record.
	EnsureReasonAltered EnsureReason = "altered"

	// EnsureReasonUnknown: a create call may have been applied, but Ensure has not found its
	// record. Call Ensure again later: it searches before it creates, and the same process
	// creates nothing within 2 minutes.
	EnsureReasonUnknown EnsureReason = "unknown"
)

// Error returns the operation, the field, the reason and the IDs.
func (e *EnsureError) Error() string {
	if e == nil {
		return nilText
	}
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

// sentence returns the reason for an error text, or the code itself if it is unknown.
func (r EnsureReason) sentence() string {
	switch r {
	case EnsureReasonAmbiguous:
		return "several records have the metadata id"
	case EnsureReasonTaken:
		return "the value belongs to a record with another metadata id or owner"
	case EnsureReasonContradicted:
		return "a record with this e-mail address has another name or date of birth"
	case EnsureReasonAltered:
		return "the record was stored with another metadata id"
	case EnsureReasonUnknown:
		return "a create call may have been applied, but no record has appeared"
	}
	return string(r)
}

// Unwrap returns the error of the create call. It matches [ErrMaybeApplied] if the reason is
// [EnsureReasonUnknown].
func (e *EnsureError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// problem describes the error for the user. Its sentence about a taken field is the one that
// the platform would write.
func (e *EnsureError) problem() *Problem {
	switch {
	case e.Field != "":
		return invalid([]hidden.Message{{Field: e.Field, Text: hidden.Label(e.Field) + " has already been taken"}})
	case e.Reason == EnsureReasonUnknown:
		return newProblem(http.StatusBadGateway, textUnconfirmedEnsure)
	case e.Reason == EnsureReasonAmbiguous:
		return newProblem(http.StatusConflict, textAmbiguous)
	}
	return newProblem(http.StatusConflict, textConflict)
}
