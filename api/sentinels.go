package api

import (
	"errors"

	"github.com/dispensary-go/dispensary/internal/siteurl"
)

// Sentinels that an [Error] matches through [errors.Is], by the response's status.
// Which status the platform uses for which mistake is not published; the
// mapping follows HTTP and what has been seen. An [Error] that is Untrusted matches
// only ErrRateLimited and ErrServer.
// API section: "Errors".
var (
	// ErrUnauthorized (401): the access token is missing, unknown, expired or
	// invalidated. The client has already tried a fresh one, or knows that new
	// ones are refused too: try again later. Only the token endpoint
	// says whether the user has to authorize again, with ErrReauthorize.
	ErrUnauthorized = errors.New("dispensary: unauthorized")

	// ErrForbidden (403): the token lacks a scope. A refresh does not help.
	ErrForbidden = errors.New("dispensary: forbidden")

	// ErrNotFound (404): no such object, or none this token may see.
	ErrNotFound = errors.New("dispensary: not found")

	// ErrValidation (400, 409, 422): the platform refused the content, for example a
	// missing field, a duplicate e-mail, or a plan that is in the wrong state.
	// Nothing was changed. See [ProblemOf].
	ErrValidation = errors.New("dispensary: invalid request")

	// ErrRateLimited (429): too many requests. See [Error.RetryAfter]. A call
	// that was not sent because the platform had asked all of them to wait
	// matches it too, with [ErrNotSent].
	ErrRateLimited = errors.New("dispensary: rate limited")

	// ErrServer (500 to 599): the platform, or a proxy before it, failed.
	ErrServer = errors.New("dispensary: server error")
)

// Sentinels of the outcome of a failed call. A failed write matches exactly one
// of [ErrNotSent], [ErrNotApplied] and [ErrMaybeApplied]; a failed read may match
// ErrNotSent.
var (
	// ErrNotSent: no byte of the request reached the platform. Repeating the
	// call is safe.
	ErrNotSent = errors.New("dispensary: request was not sent")

	// ErrNotApplied: the platform answered that it did not do it.
	ErrNotApplied = errors.New("dispensary: request was refused")

	// ErrMaybeApplied: the write was sent and its outcome is unknown. The response was
	// lost, was unreadable, was a server error, or was [Error.Untrusted]. Look before
	// repeating.
	ErrMaybeApplied = errors.New("dispensary: write may have been applied")
)

// Sentinels of calls that fail before anything is sent, and of answers that
// cannot be used.
var (
	// ErrWrongEnvironment: a token or a credential belongs to another
	// environment than the client.
	ErrWrongEnvironment = errors.New("dispensary: wrong environment")

	// ErrReauthorize: no valid token can be had without sending the user
	// through the authorization page again. Package oauth's ReauthorizeError
	// says which user and why.
	ErrReauthorize = errors.New("dispensary: user must authorize again")

	// ErrInsecure: a plain HTTP address that is not loopback.
	ErrInsecure = siteurl.ErrInsecure

	// ErrArgument: a call was given something that cannot be sent. Every
	// [ArgumentError] matches it.
	ErrArgument = errors.New("dispensary: invalid argument")

	// ErrUntrusted: the response does not prove that the platform wrote it. A proxy, a
	// gateway or a sign-in page may have responded instead. See [Error.Untrusted].
	ErrUntrusted = errors.New("dispensary: response may not be from the platform")

	// ErrBadResponse: the answer said success but could not be decoded.
	ErrBadResponse = errors.New("dispensary: undecodable response")
)

// ScopeError says that the access token was not granted a scope that a call
// needs. It matches [ErrForbidden].
//
// Where the API states the scope, the call was not sent, and the [Error] around
// this one matches [ErrNotSent] too. Where the scope is an assumption, the call
// was sent and the platform answered 403. Either way the user has to authorize
// again after the scope was added to the application: a refresh does not help.
// API section: "Authentication" 7 and 8.
type ScopeError struct {
	// Operation is the id of the call, for example "treatment_plans.create".
	Operation string

	// Scope is the first scope that is missing, for example "clinic:write".
	Scope string

	// Assumed is true where the API does not state which scope the call needs.
	Assumed bool
}

// Error names the scope.
func (e *ScopeError) Error() string {
	text := "dispensary: the token lacks the scope " + e.Scope
	if e.Assumed {
		text += " (assumed to be needed)"
	}
	return text
}

// Is makes every ScopeError match [ErrForbidden].
func (e *ScopeError) Is(target error) bool { return target == ErrForbidden }
