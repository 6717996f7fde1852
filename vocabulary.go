package dispensary

import "github.com/dispensary-go/dispensary/api"

// Environment is one of the platform's separate systems: a region combined with sandbox or
// production. See [api.Environment].
type Environment = api.Environment

// The environments of the platform.
const (
	USSandbox        = api.USSandbox        // United States, test data
	USProduction     = api.USProduction     // United States, live data
	CanadaSandbox    = api.CanadaSandbox    // Canada, test data
	CanadaProduction = api.CanadaProduction // Canada, live data
)

// Site is an environment with its URLs. See [api.Site].
type Site = api.Site

// Secret is a text that no printer shows. See [api.Secret].
type Secret = api.Secret

// NewSecret returns a [Secret] of text.
func NewSecret(text string) Secret { return api.NewSecret(text) }

// RetryPolicy limits the retries of a client. See [api.RetryPolicy].
type RetryPolicy = api.RetryPolicy

// Date is a day without a time or zone, such as a date of birth. See [api.Date].
type Date = api.Date

// Optional is a field of an update: left out (the zero value), cleared or set. See
// [api.Optional].
type Optional[T any] = api.Optional[T]

// Value returns an [Optional] that sets the field to v.
func Value[T any](v T) Optional[T] { return api.Value(v) }

// Null returns an [Optional] that sends null to clear the field.
func Null[T any]() Optional[T] { return api.Null[T]() }

// Error is a failed call. See [api.Error].
type Error = api.Error

// Problem describes an error for the user of your application. See [api.Problem].
type Problem = api.Problem

// ProblemOf returns the problem of an error from any package of this module, or nil for nil.
// See [api.ProblemOf].
func ProblemOf(err error) *Problem { return api.ProblemOf(err) }

// Errors to match with [errors.Is]. Package api has all of them.
var (
	ErrNotFound    = api.ErrNotFound    // 404: does not exist, or not visible to this token
	ErrValidation  = api.ErrValidation  // 400, 409, 422: see ProblemOf
	ErrRateLimited = api.ErrRateLimited // 429: see Error.RetryAfter
	ErrReauthorize = api.ErrReauthorize // the user must authorize again

	// A failed write matches exactly one of the next three.
	ErrNotSent      = api.ErrNotSent      // no request reached the platform
	ErrNotApplied   = api.ErrNotApplied   // the platform rejected the write
	ErrMaybeApplied = api.ErrMaybeApplied // the outcome is unknown: check before repeating
)
