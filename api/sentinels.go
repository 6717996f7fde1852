package api

import (
	"errors"

	"github.com/dispensary-go/dispensary/internal/siteurl"
)

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
