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

// Outcome says what became of a call that failed.
type Outcome string

// The outcomes. A failed write has one of the last three; a failed read was not
// sent, or has none: there was nothing to apply.
const (
	OutcomeNone         Outcome = ""              // a read that was sent
	OutcomeNotSent      Outcome = "not_sent"      // matches ErrNotSent
	OutcomeNotApplied   Outcome = "not_applied"   // matches ErrNotApplied
	OutcomeMaybeApplied Outcome = "maybe_applied" // matches ErrMaybeApplied
)

// Error is a call that failed. Its text, in every form, names the operation,
// the route template, the status and the request id, and holds neither address
// nor query nor body nor token. Methods return what the platform answered.
//
// Match it with [errors.As], or its meaning with [errors.Is] and the sentinels
// of this package.
// API section: "Errors".
type Error struct {
	// Operation is the id of the call, for example "patients.create".
	Operation string

	// Method and Route are the HTTP method and the route template, for example
	// "/clinic/patients/{id}"; never the address that was called.
	Method, Route string

	// StatusCode is the HTTP status of the last answer, 0 where none came.
	StatusCode int

	// RequestID is the X-Request-Id of the last answer, cut to 128 bytes. A "?" replaces
	// each byte that is not printable ASCII.
	RequestID string

	// Code is the error code of an OAuth response, for example "invalid_grant"
	// (RFC 6749, section 5.2). It is empty for all others, and if Untrusted is true.
	Code string

	// RetryAfter is how long the platform asked to wait, or how much of that is
	// left for a call that was not sent because of it; 0 where it did not ask. It is at
	// most 24 hours. A date counts from the Date of the response, not from the local clock.
	RetryAfter time.Duration

	// Attempts counts how often the request was sent.
	Attempts int

	// Outcome says what became of the call.
	Outcome Outcome

	// Untrusted reports whether the last response lacks proof that the platform wrote it.
	// Such an error matches [ErrUntrusted]. Its status says nothing about a record, a user
	// or the application, so it never matches [ErrNotFound] or [ErrValidation]. A write
	// without a proven response may have been applied.
	//
	// A response has proof if it has the X-Request-Id that the API promises and its body
	// is a JSON object, or if it contains the created or changed record.
	// API section: "Errors" 5.
	Untrusted bool

	// hidden is a function because that is the one thing that printing by
	// reflection never looks into: fmt calls no method on an Error in an
	// unexported field, and would print what a pointer points to.
	hidden func() detail.Detail
}

func init() {
	detail.Attach = func(err error, d detail.Detail) {
		err.(*Error).hidden = func() detail.Detail { return d }
	}
}

func (e *Error) details() detail.Detail {
	if e.hidden == nil {
		return detail.Detail{}
	}
	return e.hidden()
}

// Body returns a copy of the raw body of the last answer, or nil. It is what
// the platform wrote and may hold patient data: do not log it.
func (e *Error) Body() []byte {
	return slices.Clone(e.details().Body)
}

// Messages returns what the platform wrote for people, for example "Last name
// can't be blank". A message may repeat what was sent: do not log it. [ProblemOf] returns
// them by field.
func (e *Error) Messages() []string {
	var texts []string
	for _, m := range e.details().Messages {
		texts = append(texts, m.Text)
	}
	return texts
}

// Unwrap returns the cause: a context's error, a network error without
// address or query, an [AccessToken] source's error, or nil.
func (e *Error) Unwrap() error {
	return e.details().Cause
}

// Is matches the sentinels of status and outcome, and [ErrUntrusted].
func (e *Error) Is(target error) bool {
	return target == e.statusSentinel() || target == e.outcomeSentinel() || target == ErrUntrusted && e.Untrusted
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

// errNone equals no target: a plain nil would match errors.Is(err, nil).
var errNone = errors.New("none")

// Timeout reports whether the call ended because time ran out.
func (e *Error) Timeout() bool {
	var t interface{ Timeout() bool }
	return errors.As(e.Unwrap(), &t) && t.Timeout()
}

// Error returns a line like
//
//	dispensary: patients.create POST /clinic/patients: 500 Internal Server Error: write may have been applied (request id 7f3c)
func (e *Error) Error() string {
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

// GoString returns the text of [Error.Error], so that %#v shows no field.
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

// LogValue returns the fields that are safe to log, as a group.
func (e *Error) LogValue() slog.Value {
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
