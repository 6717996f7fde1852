package webhook

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

// Why a request is refused before anything of it is stored. The caller does
// not learn which; the log and [HandlerConfig].Observer do.
var (
	// ErrMethod: the request is not a POST. Answered with 405.
	ErrMethod = errors.New("webhook: method is not POST")

	// ErrSignatureMissing: there is no SVC-Signature header. Answered with 401.
	ErrSignatureMissing = errors.New("webhook: signature header is missing")

	// ErrSignatureMalformed: the SVC-Signature header is not of the form
	// t=<unix seconds>,v1=<64 hex digits>. The error that matches it says in
	// what way. Answered with 401.
	ErrSignatureMalformed = errors.New("webhook: signature header is malformed")

	// ErrSignatureMismatch: none of the signatures was made of this body and
	// this timestamp with one of the secrets. A wrong secret is the usual
	// reason; the challenge token is not the secret, and each environment has
	// its own. Answered with 401.
	ErrSignatureMismatch = errors.New("webhook: signature does not match")

	// ErrTimestampTooOld: the signature was made longer ago than the tolerance
	// allows. A replayed request, a delivery held up on its way, or a local
	// clock that is fast. Answered with 401.
	ErrTimestampTooOld = errors.New("webhook: signature timestamp is too old")

	// ErrTimestampTooNew: the signature was made further in the future than the
	// tolerance allows: the local clock is slow. Answered with 401.
	ErrTimestampTooNew = errors.New("webhook: signature timestamp is in the future")

	// ErrUnknownTenant: [HandlerConfig].Tenant knows no tenant that the request could
	// be for. Answered with 401.
	ErrUnknownTenant = errors.New("webhook: request is for no tenant that is known")

	// ErrUnknownPath: no [Handler] serves the path: see [NotFoundHandler]. Answered with
	// 404.
	ErrUnknownPath = errors.New("webhook: path is unknown")

	// ErrBodyConsumed: the signature does not match, and the body is not as
	// long as the request announced: something in front of the handler, a
	// logging or parsing middleware, has read or rewritten it. Mount the
	// handler before it. Answered with 401.
	ErrBodyConsumed = errors.New("webhook: body was read or changed before it reached the handler")

	// ErrBodyTooLarge: the body is longer than [HandlerConfig].MaxBody. Answered with
	// 413.
	ErrBodyTooLarge = errors.New("webhook: body is too large")

	// ErrBodyUnreadable: the body broke off or took longer than
	// [HandlerConfig].BodyTimeout. Answered with 400.
	ErrBodyUnreadable = errors.New("webhook: body could not be read")
)

// errUnsignedProbe is the error of an empty body without a signature. A monitor of
// endpoints sends such requests, and perhaps the platform before each event.
var errUnsignedProbe = fmt.Errorf("%w, and the body is empty", ErrSignatureMissing)

// Why an event that was sent by the platform is not acknowledged. Answered with
// 503, so that the platform sends it again.
var (
	// ErrInbox: the inbox returned an error, which the error that matches it
	// wraps.
	ErrInbox = errors.New("webhook: inbox did not accept")

	// ErrInboxTimeout: the inbox took longer than [HandlerConfig].AcceptTimeout. The
	// event may have been stored all the same; the platform's next attempt is
	// then a duplicate.
	ErrInboxTimeout = errors.New("webhook: inbox took too long")

	// ErrTenant: [HandlerConfig].Tenant failed, and the error that matches it wraps
	// why.
	ErrTenant = errors.New("webhook: tenant could not be looked up")

	// ErrInboxFull: the inbox holds as many events as it may.
	ErrInboxFull = errors.New("webhook: inbox is full")

	// ErrUnstorable: the inbox can never store this event, however often it is
	// sent: its key or its body is too long, for example.
	ErrUnstorable = errors.New("webhook: inbox cannot store an event like this")

	// ErrInboxClosed: the inbox has been closed.
	ErrInboxClosed = errors.New("webhook: inbox is closed")
)

// What handling an event can fail with. See package events for the errors of an
// event whose data cannot be decoded.
var (
	// ErrAbandoned: the worker that handled the event did not come back, and it was
	// the last attempt: the process ended, or the handler went on for far longer
	// than its time-out. The event may be what ended it.
	ErrAbandoned = errors.New("webhook: the worker that handled the event did not come back")

	// ErrBodyLost: the stored body cannot be opened with the keys at hand.
	ErrBodyLost = errors.New("webhook: stored body cannot be opened")

	// ErrPanic: a handler, or an inbox, panicked. Every [PanicError] matches
	// it.
	ErrPanic = safecall.ErrPanic
)

// PanicError is a panic, or a [runtime.Goexit], that was caught. Its text names the
// type of what was panicked with and not the value, which may repeat patient data;
// however it is printed, the value is not seen. It matches [ErrPanic].
type PanicError interface {
	error

	// Value returns what was panicked with; nil for a runtime.Goexit.
	Value() any

	// Stack returns the stack of the goroutine that panicked.
	Stack() string
}

var _ PanicError = (*safecall.Panic)(nil)

// argumentError is the error of a constructor.
func argumentError(field, reason string) error {
	return &api.ArgumentError{Field: "webhook." + field, Reason: reason}
}
