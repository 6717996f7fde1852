package api

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/internal/apierror/detail"
)

// Outcome is the effect of a failed call on the platform.
type Outcome string

// The outcomes. A failed write has one of the last three. A failed read is OutcomeNotSent or
// OutcomeNone, because a read has nothing to apply.
const (
	OutcomeNone         Outcome = ""              // a read that was sent
	OutcomeNotSent      Outcome = "not_sent"      // matches ErrNotSent
	OutcomeNotApplied   Outcome = "not_applied"   // matches ErrNotApplied
	OutcomeMaybeApplied Outcome = "maybe_applied" // matches ErrMaybeApplied
)

// Error is a failed call. Its text, in every form, contains the operation, the route template,
// the status and the request ID, but no URL, query, body or token. Its methods return the
// content of the response.
//
// Match the type with [errors.As], and the meaning with [errors.Is] and the sentinels of this
// package.
// API section: "Errors".
type Error struct {
	// Operation is the ID of the call, for example "patients.create".
	Operation string

	// Method and Route are the HTTP method and the route template, for example
	// "/clinic/patients/{id}". Route never contains the URL of the request.
	Method, Route string

	// StatusCode is the HTTP status of the last response, or 0 if there was none.
	StatusCode int

	// RequestID is the X-Request-Id of the last response, cut to 128 bytes. A "?" replaces each
	// byte that is not printable ASCII.
	RequestID string

	// Code is the error code of an OAuth response, for example "invalid_grant" (RFC 6749,
	// section 5.2). It is empty for all other responses, and if Untrusted is true.
	Code string

	// RetryAfter is the wait that the platform requested. For a call that was not sent because
	// of an earlier request to wait, it is the rest of that wait. It is 0 if the platform
	// requested none, and at most 24 hours. A date counts from the Date of the response, not
	// from the local clock.
	RetryAfter time.Duration

	// Attempts is the number of times that the request was sent.
	Attempts int

	// Outcome is the effect of the call on the platform.
	Outcome Outcome

	// Untrusted reports whether the last response lacks proof that the platform wrote it. Such
	// an error matches [ErrUntrusted]. Its status is no evidence about a record, a user or the
	// application, so it never matches [ErrNotFound] or [ErrValidation]. A write without a
	// proven response may have been applied.
	//
	// A response has proof if it has the X-Request-Id that the API promises and its body is a
	// JSON object, or if it contains the created or changed record.
	// API section: "Errors" 5.
	Untrusted bool

	// hidden is a function because reflection-based printers cannot look into one. fmt calls no
	// method on an Error in an unexported field, and would print the target of a pointer.
	hidden func() detail.Detail
}

func init() {
	detail.Attach = func(err error, d detail.Detail) {
		err.(*Error).hidden = func() detail.Detail { return d }
	}
}

func (e *Error) details() detail.Detail {
	if e == nil || e.hidden == nil {
		return detail.Detail{}
	}
	return e.hidden()
}

// Body returns a copy of the raw body of the last response, or nil. The platform wrote it and
// it may contain patient data, so do not log it.
func (e *Error) Body() []byte {
	return slices.Clone(e.details().Body)
}

// Messages returns the platform's sentences for the user, for example "Last name can't be
// blank". A message may repeat input, so do not log it. [ProblemOf] returns the messages by
// field.
func (e *Error) Messages() []string {
	var texts []string
	for _, m := range e.details().Messages {
		texts = append(texts, m.Text)
	}
	return texts
}

// Unwrap returns the cause: the error of a context, a network error without URL or query, the
// error of a [TokenSource], or nil.
func (e *Error) Unwrap() error {
	return e.details().Cause
}

// Is reports whether target is the sentinel of the status or of the outcome, or
// [ErrUntrusted].
func (e *Error) Is(target error) bool {
	return e != nil && (target == e.statusSentinel() || target == e.outcomeSentinel() || target == ErrUntrusted && e.Untrusted)
}

func (e *Error) statusSentinel() error {
	switch s := e.StatusCode; {
	case e.Untrusted && s < 500 && s != http.StatusTooManyRequests:
		return errNone
	case s == http.StatusUnauthorized:
		return ErrUnauthorized
	case s == http.StatusForbidden:
		return ErrForbidden
	case s == http.StatusNotFound:
		return ErrNotFound
	case s == http.StatusTooManyRequests:
		return ErrRateLimited
	case s == http.StatusBadRequest, s == http.StatusConflict, s == http.StatusUnprocessableEntity:
		return ErrValidation
	case s >= 500:
		return ErrServer
	}
	return errNone
}

func (e *Error) outcomeSentinel() error {
	switch e.Outcome {
	case OutcomeNotSent:
		return ErrNotSent
	case OutcomeNotApplied:
		return ErrNotApplied
	case OutcomeMaybeApplied:
		return ErrMaybeApplied
	}
	return errNone
}

// nilText is the text of a nil pointer in an error, as fmt prints it. A function that returns
// *Error instead of error causes such an error. It must not end the program while it reports.
const nilText = "<nil>"

// errNone matches no target. A nil error would match errors.Is(err, nil).
var errNone = errors.New("none")

// Timeout reports whether a timeout or a deadline ended the call.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Unwrap(), &t) && t.Timeout()
}

// Error returns a line such as
//
//	dispensary: patients.create POST /clinic/patients: 500 Internal Server Error: write may have been applied (request id 7f3c)
func (e *Error) Error() string {
	if e == nil {
		return nilText
	}
	var b strings.Builder
	fmt.Fprintf(&b, "dispensary: %s %s %s", e.Operation, e.Method, e.Route)
	if e.StatusCode != 0 {
		b.WriteString(": " + strconv.Itoa(e.StatusCode))
		if text := http.StatusText(e.StatusCode); text != "" {
			b.WriteString(" " + text)
		}
	}
	if e.Code != "" {
		b.WriteString(": " + e.Code)
	}
	if cause := e.Unwrap(); cause != nil {
		b.WriteString(": " + strings.TrimPrefix(cause.Error(), "dispensary: "))
	}
	if e.Untrusted {
		b.WriteString(": " + strings.TrimPrefix(ErrUntrusted.Error(), "dispensary: "))
	}
	if sentinel := e.outcomeSentinel(); sentinel != errNone && sentinel != ErrNotApplied {
		b.WriteString(": " + strings.TrimPrefix(sentinel.Error(), "dispensary: "))
	}
	if e.RequestID != "" {
		b.WriteString(" (request id " + e.RequestID + ")")
	}
	return b.String()
}

// GoString returns the text of [Error.Error], so that %#v prints no field.
func (e *Error) GoString() string { return "&api.Error{" + strconv.Quote(e.Error()) + "}" }

// Format prints the text of [Error.Error] for every verb.
func (e Error) Format(f fmt.State, verb rune) {
	text := e.Error()
	switch {
	case verb == 'v' && f.Flag('#'):
		text = e.GoString()
	case verb == 'q':
		text = strconv.Quote(text)
	}
	_, _ = io.WriteString(f, text)
}

// LogValue returns a group of the fields that are safe to log.
func (e *Error) LogValue() slog.Value {
	if e == nil {
		return slog.StringValue(nilText)
	}
	attrs := []slog.Attr{
		slog.String("operation", e.Operation),
		slog.String("method", e.Method),
		slog.String("route", e.Route),
		slog.Int("attempts", e.Attempts),
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	if e.StatusCode != 0 {
		attrs = append(attrs, slog.Int("status", e.StatusCode))
	}
	add("request_id", e.RequestID)
	add("code", e.Code)
	add("outcome", string(e.Outcome))
	if e.Untrusted {
		attrs = append(attrs, slog.Bool("untrusted", true))
	}
	if e.RetryAfter > 0 {
		attrs = append(attrs, slog.Duration("retry_after", e.RetryAfter))
	}
	if cause := e.Unwrap(); cause != nil {
		attrs = append(attrs, slog.String("cause", cause.Error()))
	}
	return slog.GroupValue(attrs...)
}
