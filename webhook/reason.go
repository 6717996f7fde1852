package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/apierror"
	"github.com/dispensary-go/dispensary/seal"
)

// unnamed is the reason of an error without a telling type, such as that of errors.New. Its
// text may repeat patient data.
const unnamed = "unnamed error: see webhook.WithReason"

// WithReason sets the reason of an error. [Attempt.Reason] returns code, so the event is
// logged, stored and counted under it. Code is a constant such as "no_chart", of 1 to 64
// lower-case letters, digits, dots, hyphens and underscores. It must not depend on the
// event. WithReason returns err unchanged if code has another form, and nil if err is nil.
// With several codes, the outermost counts.
//
// The result matches the same errors as err. You can combine it with [Permanent] in both orders.
func WithReason(code string, err error) error {
	if err == nil || !reasonCode.MatchString(code) {
		return err
	}
	return &reasonError{code, err}
}

var reasonCode = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)

// ReasonCode returns the code from [WithReason], or an empty string.
func ReasonCode(err error) string {
	var coded *reasonError
	if errors.As(err, &coded) {
		return coded.code
	}
	return ""
}

type reasonError struct {
	code string
	err  error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

// Reason describes Err without its text, which may repeat patient data, so a reason is safe to log
// and store. Errors with the same cause have the same reason for all events, users and clinics, so
// you can count events by it. It is empty if Err is nil.
//
// It is the first match in this list, after "permanent: " if Err is [Permanent]:
//
//   - the code of [WithReason]
//   - for an [*events.DataError], the reason and the field
//   - for an [*api.Error], operation, route, status, code, outcome, and the reason of its
//     cause
//   - for a [PanicError], the type of the value, or the error of the runtime
//   - the type of the outermost error with a named type, and the text of a common error
//     in its chain, such as [context.DeadlineExceeded] or sql.ErrNoRows
//   - "unnamed error: see webhook.WithReason", for example for the result of errors.New
func (a Attempt) Reason() string { return reason(a.Err) }

// RequestID returns the request ID of the [*api.Error] in Err, or an empty string.
func (a Attempt) RequestID() string {
	if call := (*api.Error)(nil); errors.As(a.Err, &call) && call != nil {
		return call.RequestID
	}
	return ""
}

// reason implements [Attempt.Reason].
func reason(err error) string {
	if err == nil {
		return ""
	}
	text := ReasonCode(err)
	if text == "" {
		text = describe(err)
	}
	if marked := (*permanentError)(nil); errors.As(err, &marked) {
		return "permanent: " + text
	}
	return text
}

func describe(err error) string {
	var data *events.DataError
	var call *api.Error
	var caught PanicError
	switch {
	case errors.As(err, &data) && data != nil:
		text := fmt.Sprint(data.Err)
		if data.Field != "" {
			text += ", field " + data.Field
		}
		return text
	case errors.As(err, &call) && call != nil:
		return describeCall(call)
	case errors.As(err, &caught):
		return digits.ReplaceAllString(caught.Error(), "N")
	}
	sentinel := describeSentinel(err)
	named := find(err, hasName)
	switch {
	case named == nil && sentinel == "":
		return unnamed
	case named == nil:
		return sentinel
	case sentinel == "":
		return fmt.Sprintf("error of type %T", named)
	}
	return fmt.Sprintf("error of type %T: %s", named, strings.TrimPrefix(sentinel, "dispensary: "))
}

// digits matches indexes and lengths in the text of a runtime error. They differ between events.
var digits = regexp.MustCompile(`\d+`)

// describeCall returns the text of an [*api.Error], but without the request ID and with the reason
// of its cause instead of the text of its cause.
func describeCall(call *api.Error) string {
	alike := api.Error{
		Operation: call.Operation, Method: call.Method, Route: call.Route,
		StatusCode: call.StatusCode, Code: call.Code, Outcome: call.Outcome, Untrusted: call.Untrusted,
	}
	var cause error
	if inner := call.Unwrap(); inner != nil {
		if text := describe(inner); text != unnamed {
			cause = errors.New(text)
		}
	}
	return apierror.New(alike, cause, nil, nil).Error()
}

// sentinels are errors with constant texts.
var sentinels = []error{
	events.ErrMalformed, events.ErrNoEvent, context.DeadlineExceeded, context.Canceled,
	ErrAbandoned, seal.ErrNotSealed, seal.ErrTampered, seal.ErrUnknownKey, ErrBodyLost,
	ErrInboxFull, ErrInboxClosed, ErrInboxTimeout, ErrUnstorable,
	api.ErrReauthorize, api.ErrWrongEnvironment, api.ErrInsecure, api.ErrArgument,
	api.ErrBadResponse, api.ErrForbidden,
	io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, os.ErrDeadlineExceeded, os.ErrProcessDone,
}

// sentinelTexts are texts of database/sql. This package does not import it, so it compares
// the texts of errors of type *errors.errorString. A reason shows these constants only.
var sentinelTexts = []string{
	"sql: no rows in result set", "sql: transaction has already been committed or rolled back",
	"sql: connection is already closed", "sql: database is closed", "driver: bad connection",
}

// describeSentinel returns the text of a sentinel in the chain, or an empty string.
func describeSentinel(err error) string {
	for _, known := range sentinels {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	var state interface{ SQLState() string }
	if errors.As(err, &state) && sqlState.MatchString(state.SQLState()) {
		return "SQLSTATE " + state.SQLState()
	}
	text := ""
	find(err, func(e error) bool {
		switch reflect.TypeOf(e).String() {
		case "syscall.Errno": // its texts are constant, for example "connection refused"
			text = e.Error()
		case "*errors.errorString":
			if slices.Contains(sentinelTexts, e.Error()) {
				text = e.Error()
			}
		}
		return text != ""
	})
	var timeout net.Error
	if text == "" && errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return text
}

var sqlState = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// hasName reports whether the type of err has a telling name.
func hasName(err error) bool {
	switch err.(type) {
	case *permanentError, *reasonError:
		return false
	}
	if slices.ContainsFunc(sentinels, func(known error) bool { return reflect.TypeOf(known).Comparable() && err == known }) {
		return false
	}
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "", "errors", "fmt", "github.com/pkg/errors", "github.com/dispensary-go/dispensary/internal/sentinel":
		return false
	}
	return t.Name() != ""
}

// find returns the first error in the tree of err that accept accepts, depth first, or nil.
func find(err error, accept func(error) bool) error {
	for err != nil {
		if accept(err) {
			return err
		}
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range wrapper.Unwrap() {
				if found := find(one, accept); found != nil {
					return found
				}
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}
