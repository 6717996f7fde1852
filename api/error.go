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

	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/siteurl"
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
	hidden func() hidden.Detail
}

func init() {
	hidden.Attach = func(err error, d hidden.Detail) {
		err.(*Error).hidden = func() hidden.Detail { return d }
	}
}

func (e *Error) details() hidden.Detail {
	if e == nil || e.hidden == nil {
		return hidden.Detail{}
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

// Sentinels that an [Error] matches through [errors.Is], by the status of the response. The
// API does not document its statuses, so the mapping follows HTTP and observation. An [Error]
// that is Untrusted matches only ErrRateLimited and ErrServer.
// API section: "Errors".
var (
	// ErrUnauthorized (401): the access token is missing, unknown, expired or invalidated. The
	// client has already tried a fresh token, or knows that the platform rejects fresh tokens
	// too: try again later. Only the token endpoint decides whether the user must authorize
	// again, with ErrReauthorize.
	ErrUnauthorized = errors.New("dispensary: unauthorized")

	// ErrForbidden (403): the token lacks a scope. A refresh does not help.
	ErrForbidden = errors.New("dispensary: forbidden")

	// ErrNotFound (404): the object does not exist, or this token may not see it.
	ErrNotFound = errors.New("dispensary: not found")

	// ErrValidation (400, 409, 422): the platform rejected the input, for example a missing
	// field, a duplicate e-mail address, or a plan in the wrong state. It changed nothing. See
	// [ProblemOf].
	ErrValidation = errors.New("dispensary: invalid request")

	// ErrRateLimited (429): too many requests. See [Error.RetryAfter]. It also matches,
	// together with [ErrNotSent], a call that was not sent because the platform had asked all
	// calls to wait.
	ErrRateLimited = errors.New("dispensary: rate limited")

	// ErrServer (500 to 599): the platform, or a proxy in front of it, failed.
	ErrServer = errors.New("dispensary: server error")
)

// Sentinels for the outcome of a failed call. A failed write matches exactly one of
// [ErrNotSent], [ErrNotApplied] and [ErrMaybeApplied]. A failed read may match ErrNotSent.
var (
	// ErrNotSent: no byte of the request reached the platform. The call is safe to repeat.
	ErrNotSent = errors.New("dispensary: request was not sent")

	// ErrNotApplied: the platform responded that it rejected the request.
	ErrNotApplied = errors.New("dispensary: request was rejected")

	// ErrMaybeApplied: the write was sent, but its outcome is unknown. The response was lost,
	// unreadable, a server error or [Error.Untrusted]. Check before you repeat it.
	ErrMaybeApplied = errors.New("dispensary: write may have been applied")
)

// Sentinels for calls that fail before the client sends a request, and for unusable responses.
var (
	// ErrWrongEnvironment: a token or a credential belongs to a different environment than the
	// client.
	ErrWrongEnvironment = errors.New("dispensary: wrong environment")

	// ErrAccountChanged: the user has connected another account of the platform while the call
	// ran. [AccountChangedError] contains both accounts. Start the work again with a new client.
	ErrAccountChanged = errors.New("dispensary: the user has connected another account")

	// ErrReauthorize: the user must authorize again, because no valid token is left.
	// ReauthorizeError of package tokens contains the user and the reason.
	ErrReauthorize = errors.New("dispensary: user must authorize again")

	// ErrInsecure: a plain HTTP URL whose host is not loopback.
	ErrInsecure = siteurl.ErrInsecure

	// ErrArgument: an argument of the call cannot be sent. Every [ArgumentError] matches it.
	ErrArgument = errors.New("dispensary: invalid argument")

	// ErrUntrusted: the response lacks proof that the platform wrote it. A proxy, a gateway or
	// a sign-in page may have responded instead. See [Error.Untrusted].
	ErrUntrusted = errors.New("dispensary: response may not be from the platform")

	// ErrBadResponse: the response has a success status, but cannot be decoded.
	ErrBadResponse = errors.New("dispensary: undecodable response")
)

// ScopeError reports that the access token lacks a scope of the call. It matches
// [ErrForbidden].
//
// If the API documents the scope, the call was not sent, and the surrounding [Error] also
// matches [ErrNotSent]. If the scope is an assumption, the call was sent and the platform
// responded with 403. In both cases add the scope to the application. The user must then
// authorize again: a refresh does not help.
// API section: "Authentication" 7 and 8.
type ScopeError struct {
	// Operation is the ID of the call, for example "treatment_plans.create".
	Operation string

	// Scope is the first missing scope, for example "clinic:write".
	Scope string

	// Assumed reports whether the scope is an assumption, because the API does not document it.
	Assumed bool
}

// Error names the scope.
func (e *ScopeError) Error() string {
	if e == nil {
		return nilText
	}
	text := "dispensary: the token lacks the scope " + e.Scope
	if e.Assumed {
		text += " (assumed to be needed)"
	}
	return text
}

// Is reports whether target is [ErrForbidden].
func (e *ScopeError) Is(target error) bool { return e != nil && target == ErrForbidden }
