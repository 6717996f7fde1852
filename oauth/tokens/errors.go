package tokens

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// ErrOwnerRejected means that the user authorized with an account of the platform that
// [Config].Verify rejects. The token has been revoked.
var ErrOwnerRejected = apikit.NewSentinel("tokens: the platform account is not accepted for this user", api.Problem{
	Status: http.StatusForbidden, Title: "This dispensary account cannot be connected here. Please use another one.", Reauthorize: true,
})

// ErrUndecided is the error for [Config].Verify to return if it cannot decide, for example
// because the clinic is not known. [Connections.Connect] returns it without [ErrOwnerRejected].
// The token has been revoked, and the user can try again.
var ErrUndecided = apikit.NewSentinel("tokens: the platform account could not be checked", api.Problem{
	Status: http.StatusBadGateway, Title: "The dispensary account could not be checked. Please try again later.",
})

// StoreError is a failure of the [tokenstore.Store] itself, for example of its database. It
// loses no token of the platform: a token pair that could not be written is kept and retried,
// see [Connections.PendingCommits].
type StoreError struct {
	// Op is the name of the failed method, for example "Commit".
	Op string

	// Key names the requested record.
	Key tokenstore.Key

	err error
}

// Error names the method, the key and the error of the store.
func (e *StoreError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("tokens: store: %s of %s: %v", e.Op, e.Key, e.err)
}

// Problem asks the user to try again later. See [api.ProblemOf].
func (e *StoreError) Problem() *api.Problem {
	return &api.Problem{Status: http.StatusServiceUnavailable, Title: "This is not possible right now. Please try again later."}
}

// Unwrap returns the cause, an error of the store, for [errors.Is] and [errors.As].
func (e *StoreError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.err
}

// storeError wraps an error of a store. It returns nil if err is nil.
func storeError(op string, key tokenstore.Key, err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Op: op, Key: key, err: err}
}

// isStoreError reports whether the store failed.
func isStoreError(err error) bool {
	var failure *StoreError
	return errors.As(err, &failure)
}

// isContention reports whether the store rejected a write because another writer changed or
// leased the record.
func isContention(err error) bool {
	return errors.Is(err, tokenstore.ErrConflict) || errors.Is(err, tokenstore.ErrLeased) || errors.Is(err, tokenstore.ErrNoRecord)
}

// ReauthorizeError means that a user must go through the authorization page again. It matches
// [api.ErrReauthorize], and [tokenstore.ErrNoRecord] if no token is stored. The
// [tokenstore.Store] keeps it with the token, so calls return it without a request to the
// platform.
//
// Calls retry the refresh token only for [tokenstore.ReasonInvalidGrant],
// [tokenstore.ReasonOwnerChanged], and [tokenstore.ReasonScopesExtended] once the added scopes
// are removed from [oauth.Config]. The first retry is 60 to 75 seconds later, and then the
// waits grow to 8 to 10 minutes. If the platform accepts the refresh token, the call succeeds and
// [Observer].Restored is called.
type ReauthorizeError struct {
	// Key names the user.
	Key tokenstore.Key

	// Reason is a code for the cause.
	Reason tokenstore.Reason

	// Owner is the account of the last token, or zero if it is unknown.
	Owner oauth.ResourceOwner

	client    *oauth.Client
	cause     error
	retryFrom time.Time // the earliest retry of the refresh token, zero for never
}

// mayRetry reports whether err is a mark whose refresh token may be tried again now.
func mayRetry(err error) bool {
	var mark *ReauthorizeError
	return errors.As(err, &mark) && !mark.retryFrom.IsZero() && !time.Now().Before(mark.retryFrom)
}

// AuthorizeURL returns the URL to which you redirect the user's browser. See
// [oauth.Client.AuthorizeURL].
func (e *ReauthorizeError) AuthorizeURL(state string) (string, error) {
	return e.client.AuthorizeURL(state)
}

// Error names the user and the reason.
func (e *ReauthorizeError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return "tokens: " + e.Key.String() + " must authorize again: " + string(e.Reason)
}

// Unwrap returns the error of the platform, or nil.
func (e *ReauthorizeError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// Is matches [api.ErrReauthorize], and [tokenstore.ErrNoRecord] if the user is not connected.
func (e *ReauthorizeError) Is(target error) bool {
	return e != nil && (target == api.ErrReauthorize || target == tokenstore.ErrNoRecord && e.Reason == tokenstore.ReasonNotConnected)
}

// Format prints [ReauthorizeError.Error] for every verb.
func (e *ReauthorizeError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// LogValue returns the fields that are safe to log, as a group.
func (e *ReauthorizeError) LogValue() slog.Value {
	if e == nil {
		return slog.StringValue(e.Error())
	}
	return slog.GroupValue(
		slog.String("error", e.Error()),
		slog.String("key", e.Key.String()),
		slog.String("reason", string(e.Reason)),
		slog.String("owner_type", e.Owner.Type),
		slog.String("owner_id", e.Owner.ID),
	)
}

// wrongEnvironment matches [api.ErrWrongEnvironment].
func wrongEnvironment(token, want api.Environment) error {
	return fmt.Errorf("%w: the token is for %s, not for %s", api.ErrWrongEnvironment, token, want)
}

// needsUser reports whether only a new authorization by the user resolves err.
func needsUser(err error) bool { return errors.Is(err, api.ErrReauthorize) }

// rejectedError is a rejection of a refresh token that marks no user yet.
type rejectedError struct {
	key    tokenstore.Key
	forced bool // by a 401 of the API
	err    error
}

func (e *rejectedError) Error() string {
	return "tokens: the refresh token of " + e.key.String() + " was rejected and is retried before the user is marked: " + e.err.Error()
}

func (e *rejectedError) Unwrap() error { return e.err }

// panicked returns an error for a panic of a store or a transport. Such a panic must not end
// the program from a goroutine in which no caller can recover it. The value may contain
// secrets, so the error contains only its type.
func panicked(value any) error { return fmt.Errorf("panic with a %T", value) }

// recoverAsError turns a panic into an error. Defer it.
func recoverAsError(err *error) {
	if v := recover(); v != nil {
		*err = panicked(v)
	}
}
