package dispensary

import (
	"context"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/api/observe"
)

// Error is a call that failed: operation, route template, status, request id,
// outcome, and by method the body and messages of the answer. Its text never
// holds an address, a query, a body or a token. Calls return a *Error.
//
// Its fields are Operation, Method, Route, StatusCode, RequestID, Code, RetryAfter,
// Attempts, Outcome and Untrusted, its methods Body, Messages and Timeout; see
// [api.Error].
type Error = api.Error

// ArgumentError is an argument that cannot be sent; it names the field as the request
// does: "last_name". Nothing was sent. Calls return a *ArgumentError, or
// [api.ArgumentErrors] for several, which match [ErrArgument]. [ProblemOf] reads
// both.
//
// Its fields are Operation, Field, Reason and Err; see [api.ArgumentError].
type ArgumentError = api.ArgumentError

// Problem describes an error for the user of your application: a status for your own
// response, a sentence, and messages beside the fields of a form. Encoded as JSON it is a
// problem document of RFC 9457.
//
// Its fields are Status, Title, Fields, Other, Reauthorize and RetryAfter, its method For; see
// [api.Problem].
type Problem = api.Problem

// ProblemOf returns the problem of an error from any package of this module, or nil for nil.
// [api.ProblemOf] has a table of errors and statuses.
// API section: "Errors".
func ProblemOf(err error) *Problem { return api.ProblemOf(err) }

// ScopeError is the cause of a call that failed because the token lacks a scope,
// which it names. It matches [ErrForbidden].
//
// Its fields are Operation, Scope and Assumed; see [api.ScopeError].
type ScopeError = api.ScopeError

// Sentinels that a failed call matches by the status of its answer, through
// [errors.Is].
var (
	ErrUnauthorized = api.ErrUnauthorized // 401
	ErrForbidden    = api.ErrForbidden    // 403: the token lacks a scope
	ErrNotFound     = api.ErrNotFound     // 404
	ErrValidation   = api.ErrValidation   // 400, 409, 422: see ProblemOf
	ErrRateLimited  = api.ErrRateLimited  // 429: see Error.RetryAfter
	ErrServer       = api.ErrServer       // 500 to 599
)

// Sentinels of the outcome of a failed write, which matches exactly one of them.
var (
	ErrNotSent      = api.ErrNotSent      // nothing reached the platform
	ErrNotApplied   = api.ErrNotApplied   // the platform said that it did not do it
	ErrMaybeApplied = api.ErrMaybeApplied // unknown: look before repeating
)

// Sentinels of calls that fail before the client sends a request.
var (
	ErrReauthorize = api.ErrReauthorize // the user has to authorize again
	ErrInsecure    = api.ErrInsecure    // plain HTTP beyond loopback
	ErrArgument    = api.ErrArgument    // every ArgumentError
)

// Observer receives how calls go; see [WithObserver]. What it receives are types of
// package observe: Call, Attempt, AttemptResult, InvalidField and CallResult.
//
// Its fields are CallStart, AttemptStart, AttemptEnd, CallEnd and InvalidField; see
// [observe.Observer].
type Observer = observe.Observer

// The sort orders; the platform sorts ascending where none is given.
const (
	SortOrderAscending  = api.SortOrderAscending
	SortOrderDescending = api.SortOrderDescending
)

// DateFilter keeps what happened on some days: [DateOn] a day, [DateBefore] or [DateAfter] it,
// or [DateRange] two. The zero value keeps everything.
//
// Its method is IsZero; see [api.DateFilter].
type DateFilter = api.DateFilter

// DateOn keeps what happened on day.
func DateOn(day Date) DateFilter { return api.DateOn(day) }

// DateBefore keeps what happened on the days before day.
func DateBefore(day Date) DateFilter { return api.DateBefore(day) }

// DateAfter keeps what happened on the days after day.
func DateAfter(day Date) DateFilter { return api.DateAfter(day) }

// DateRange keeps what happened from first to last, both included.
func DateRange(first, last Date) DateFilter { return api.DateRange(first, last) }

// Optional is a field of an update: left out (the zero value), cleared or set.
// Make one with [Value] or [Null].
//
// Its methods are Get and IsZero; see [api.Optional].
type Optional[T any] = api.Optional[T]

// Value returns an Optional that sets the field to v.
func Value[T any](v T) Optional[T] { return api.Value(v) }

// Null returns an Optional that sends null: it clears the field.
func Null[T any]() Optional[T] { return api.Null[T]() }

// Date is a day without time or zone, such as a date of birth.
//
// Its fields are Year, Month and Day, its methods IsZero, Compare and Validate;
// see [api.Date].
type Date = api.Date

// Secret is a text that no printer shows; [Secret.Reveal] returns it. Two secrets are
// equal if their texts are equal.
//
// Its methods are Reveal and IsZero; see [api.Secret].
type Secret = api.Secret

// NewSecret returns a [Secret] of text.
func NewSecret(text string) Secret { return api.NewSecret(text) }

// AccessToken is what one call is authorized with, bound to its environment.
//
// Its fields are Secret, Environment, ExpiresAt and Scope, its methods Scopes and
// HasScope; see [api.AccessToken].
type AccessToken = api.AccessToken

// TokenSource gives each call its access token. Package oauth has sources that
// store, share and refresh tokens.
//
// Its method is Token; see [api.TokenSource].
type TokenSource = api.TokenSource

// Response is what came with an answer beside its body; see [CaptureResponse].
//
// Its fields are StatusCode, Header, RequestID and Attempts; see [api.Response].
type Response = api.Response

// RequestOption changes a single call; every method that sends takes any number
// of them last.
//
// See [api.RequestOption].
type RequestOption = api.RequestOption

// CaptureResponse stores status, headers and request id of the answer in
// response, on success and on failure.
func CaptureResponse(response *Response) RequestOption { return api.CaptureResponse(response) }

// PriorityReconcile is the priority of background work. The priorities of events, refreshes
// and interactive calls are higher; see [api.Priority].
const PriorityReconcile = api.PriorityReconcile

// ContextWithPriority returns a context whose requests have the priority; see
// [api.ContextWithPriority].
func ContextWithPriority(ctx context.Context, p api.Priority) context.Context {
	return api.ContextWithPriority(ctx, p)
}
