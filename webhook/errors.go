package webhook

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/safecall"
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
