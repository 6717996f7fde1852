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
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/seal"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Errors of rejected requests, with the status of the response. The log and
// [HandlerConfig].Observer get them. The caller of the endpoint does not.
var (
	// ErrMethod (405): the request is not a POST.
	ErrMethod = errors.New("webhook: method is not POST")

	// ErrSignatureMissing (401): there is no SVC-Signature header. A proxy may remove unknown
	// headers.
	ErrSignatureMissing = errors.New("webhook: signature header is missing")

	// ErrSignatureMalformed (401): the SVC-Signature header is not of the form
	// t=<unix seconds>,v1=<64 hex digits>. The text of the error has the details.
	ErrSignatureMalformed = errors.New("webhook: signature header is malformed")

	// ErrSignatureMismatch (401): no signature matches the body and the timestamp. The usual
	// reason is a wrong secret: the challenge token, or the secret of another environment.
	ErrSignatureMismatch = errors.New("webhook: signature does not match")

	// ErrTimestampTooOld (401): the signature is older than the tolerance. Causes are a replayed
	// request, a delayed delivery, and, if it affects every request, a fast local clock.
	ErrTimestampTooOld = errors.New("webhook: signature timestamp is too old")

	// ErrTimestampTooNew (401): the timestamp is further in the future than the tolerance. The
	// local clock is slow.
	ErrTimestampTooNew = errors.New("webhook: signature timestamp is in the future")

	// ErrUnknownTenant (401): [HandlerConfig].Tenant returned nil. Causes are a renamed path and a
	// deleted tenant.
	ErrUnknownTenant = errors.New("webhook: tenant is unknown")

	// ErrUnknownPath (404): no [Handler] serves the path, for example after it was renamed. See
	// [NotFoundHandler].
	ErrUnknownPath = errors.New("webhook: path is unknown")

	// ErrBodyConsumed (401): the signature does not match, and the length of the body differs
	// from the announced length. Middleware has read or rewritten the body. Mount the handler in
	// front of the middleware.
	ErrBodyConsumed = errors.New("webhook: body was read or changed before it reached the handler")

	// ErrBodyTooLarge (413): the body is larger than [HandlerConfig].MaxBody.
	ErrBodyTooLarge = errors.New("webhook: body is too large")

	// ErrBodyUnreadable (400): the body broke off or took longer than
	// [HandlerConfig].BodyTimeout.
	ErrBodyUnreadable = errors.New("webhook: body could not be read")
)

// errUnsignedProbe is the error of a request with an empty body and no signature. Monitors send
// such requests, and perhaps the platform does before each event.
var errUnsignedProbe = fmt.Errorf("%w, and the body is empty", ErrSignatureMissing)

// Errors of events that are not acknowledged. The response is 503, so the platform sends the
// event again.
var (
	// ErrInbox: the inbox returned the wrapped error.
	ErrInbox = errors.New("webhook: inbox did not accept the event")

	// ErrInboxTimeout: the inbox took longer than [HandlerConfig].AcceptTimeout. If it stores the
	// event anyway, the next delivery is a duplicate.
	ErrInboxTimeout = errors.New("webhook: inbox took too long")

	// ErrTenant: [HandlerConfig].Tenant returned the wrapped error.
	ErrTenant = errors.New("webhook: tenant lookup failed")

	// ErrInboxFull: the inbox has reached its limit of events.
	ErrInboxFull = errors.New("webhook: inbox is full")

	// ErrUnstorable: the inbox can never store this event, for example because its key or its
	// body is too long.
	ErrUnstorable = errors.New("webhook: inbox cannot store this event")

	// ErrInboxClosed: the inbox has been closed.
	ErrInboxClosed = errors.New("webhook: inbox is closed")
)

// Errors of handling. See package events for data that cannot be decoded.
var (
	// ErrAbandoned: the last attempt had no outcome, because the process died or the handler ran
	// far longer than its timeout. The event may be the reason.
	ErrAbandoned = errors.New("webhook: worker ended without an outcome")

	// ErrBodyLost: no key decrypts the stored body.
	ErrBodyLost = errors.New("webhook: stored body cannot be decrypted")
)

// PanicError is a recovered panic or [runtime.Goexit] of a handler or an inbox. Find it with
// errors.As. No printed form shows the value, which may repeat patient data, only its type.
type PanicError interface {
	error

	// Value returns the value of the panic, or nil for a runtime.Goexit.
	Value() any

	// Stack returns the stack of the goroutine that panicked.
	Stack() string
}

var _ PanicError = (*safecall.Panic)(nil)

// argumentError is the error of a constructor.
func argumentError(field, reason string) error {
	return &api.ArgumentError{Field: "webhook." + field, Reason: reason}
}

// unnamed is the reason of an error without a telling type, such as that of errors.New. Its
// text may repeat patient data.
const unnamed = "unnamed error: see webhook.WithReason"

// WithReason sets the reason of an error. [Attempt.Reason] returns code, so the event is
// logged, stored and counted under it. Code is a constant such as "no_chart", of 1 to 64
// lower-case letters, digits, dots, hyphens and underscores. It must not depend on the
// event. WithReason returns err unchanged if code has another form, and nil if err is nil.
// With several codes, the outermost counts.
//
// The result matches the same errors as err. You can combine it with [Permanent] in both orders. The
// reason is then "permanent: " and the code, also in the filter of a replay.
func WithReason(code string, err error) error {
	if err == nil || !reasonCode.MatchString(code) {
		return err
	}
	return &reasonError{code, err}
}

var reasonCode = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)

// ReasonCode returns the code from [WithReason], or an empty string.
func ReasonCode(err error) string {
	if coded, ok := errors.AsType[*reasonError](err); ok {
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
//     in its chain, such as [context.DeadlineExceeded] or sql.ErrNoRows, or the code of an error of
//     PostgreSQL or SQLite
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
	return apikit.NewError(alike, cause, nil, nil).Error()
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
	var number interface{ Code() int } // as of SQLite
	if errors.As(err, &number) {
		return fmt.Sprintf("code %d", number.Code())
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
	case "", "errors", "fmt", "github.com/pkg/errors", "github.com/dispensary-go/dispensary/internal/apikit":
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
