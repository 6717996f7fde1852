package oauth

import (
	"errors"

	"github.com/dispensary-go/dispensary/api"
)

// ErrReauthorize says that no valid token can be had without sending the user
// through the authorization page again. It is [api.ErrReauthorize] under a second
// name; the errors that match it are [*ReauthorizeError], which say who and why.
var ErrReauthorize = api.ErrReauthorize

// Sentinels of the browser flow. They are matched by the errors of
// [ParseCallback] and [Client.Exchange]; nothing has been stored when one is
// returned, and the user can simply start again.
var (
	// ErrCancelled: the user pressed cancel on the authorization page, or may
	// not authorize. It is an answer, not a failure: show a "not connected"
	// page and log nothing.
	ErrCancelled = errors.New("dispensary: the user did not authorize")

	// ErrState: the callback does not carry the state that this browser was
	// sent away with. The callback may be forged: its code must not be used.
	ErrState = errors.New("dispensary: the callback's state is not the one that was sent")

	// ErrNoCode: the callback carries the right state, but no code and no
	// error, or one of them twice.
	ErrNoCode = errors.New("dispensary: the callback carries no authorization code")

	// ErrCallback: the platform sent the browser back with another error than
	// a refusal by the user. [CallbackError.Code] tells which.
	ErrCallback = errors.New("dispensary: the authorization page reported an error")

	// ErrCodeRefused: the platform does not take the authorization code: it has
	// been used, is older than 10 minutes, or belongs to another application or
	// redirect address. A code is never tried twice: start the flow again.
	ErrCodeRefused = errors.New("dispensary: the authorization code was refused")

	// ErrOwnerRefused: the user authorized with an account of the platform that
	// the integrator does not accept for them. The token has been revoked.
	ErrOwnerRefused = errors.New("dispensary: the platform account is not accepted for this user")
)

// Sentinels of [Store] methods. Implementations return exactly these, wrapped
// or not, for these conditions, and any other error for a failure of the store
// itself, after which the state of the record is unknown.
var (
	// ErrNoRecord: the store holds nothing under the key. Nothing was changed.
	ErrNoRecord = errors.New("dispensary: no token is stored for this user")

	// ErrConflict: the record has another version than the caller saw, or the
	// lease is no longer the caller's. Nothing was changed. Load the record
	// and decide again.
	ErrConflict = errors.New("dispensary: the stored token was changed by someone else")

	// ErrLeased: another owner holds a lease that has not run out. Nothing was
	// changed. Its refresh will soon move the version, or the lease will end.
	ErrLeased = errors.New("dispensary: the stored token is being refreshed by someone else")
)

// StoreError is a failure of the [Store] itself, for example of its database.
// What the platform granted is not lost by it: a token pair that could not be
// written is kept and tried again, see [Client.Unwritten].
type StoreError struct {
	// Op is the name of the method that failed, for example "Commit".
	Op string

	// Key is the record that was asked for.
	Key Key

	err error
}

// Error names the method, the key and the store's own reason.
func (e *StoreError) Error() string {
	return "dispensary: token store: " + e.Op + " of " + e.Key.String() + ": " + e.err.Error()
}

// Unwrap returns the store's own error.
func (e *StoreError) Unwrap() error { return e.err }

// storeError wraps what a store returned, unless it is nil.
func storeError(op string, key Key, err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Op: op, Key: key, err: err}
}
