package tokens

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/sentinel"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/tokenstore"
)

// ErrOwnerRefused says that the user authorized with an account of the platform that the
// integrator does not accept for them. The token has been revoked.
var ErrOwnerRefused = sentinel.New("tokens: the platform account is not accepted for this user", api.Problem{
	Status: http.StatusForbidden, Title: "This dispensary account cannot be connected here. Please use another one.", Reauthorize: true,
})

// ErrUndecided is the error for [Config].Verify to return if it cannot decide, for example
// because the clinic is not known. [Connections.Connect] returns it without
// [ErrOwnerRefused]. The token has been revoked, and the user can try again.
var ErrUndecided = sentinel.New("tokens: the platform account could not be checked", api.Problem{
	Status: http.StatusBadGateway, Title: "The dispensary account could not be checked. Please try again later.",
})

// StoreError is a failure of the [tokenstore.Store] itself, for example of its database.
// What the platform granted is not lost by it: a token pair that could not be
// written is kept and tried again, see [Connections.PendingCommits].
type StoreError struct {
	// Op is the name of the method that failed, for example "Commit".
	Op string

	// Key is the record that was asked for.
	Key tokenstore.Key

	err error
}

// Error names the method, the key and the store's own reason.
func (e *StoreError) Error() string {
	return "tokens: store: " + e.Op + " of " + e.Key.String() + ": " + e.err.Error()
}

// Problem tells the user to try again later; see [api.ProblemOf].
func (e *StoreError) Problem() *api.Problem {
	return &api.Problem{Status: http.StatusServiceUnavailable, Title: "This is not possible right now. Please try again later."}
}

// Unwrap returns the store's own error.
func (e *StoreError) Unwrap() error { return e.err }

// storeError wraps what a store returned, unless it is nil.
func storeError(op string, key tokenstore.Key, err error) error {
	if err == nil {
		return nil
	}
	return &StoreError{Op: op, Key: key, err: err}
}

// isStoreError reports that the store failed.
func isStoreError(err error) bool {
	var failure *StoreError
	return errors.As(err, &failure)
}

// isContention reports what a store returns when others are writing the record.
func isContention(err error) bool {
	return errors.Is(err, tokenstore.ErrConflict) || errors.Is(err, tokenstore.ErrLeased) || errors.Is(err, tokenstore.ErrNoRecord)
}

// ReauthorizeError says that a user has to go through the authorization page
// again, and why. It matches [api.ErrReauthorize], and [tokenstore.ErrNoRecord] where nothing
// is stored. It is remembered in the [tokenstore.Store], with the token, and returned without
// asking the platform. Only for [tokenstore.ReasonInvalidGrant] and [tokenstore.ReasonOwnerChanged] do calls
// retry the refresh token, a minute later at first and then every 10 minutes: if the platform
// accepts it after all, the call succeeds and [Observer].Restored is called.
type ReauthorizeError struct {
	// Key names the user.
	Key tokenstore.Key

	// Reason says why.
	Reason tokenstore.Reason

	// Owner is whom the last token acted for; zero if that is not known.
	Owner oauth.ResourceOwner

	client    *oauth.Client
	cause     error
	retryFrom time.Time // from here on the refresh token may be tried again; zero is never
}

// AuthorizeURL returns where to send the user's browser; see
// [oauth.Client.AuthorizeURL].
func (e *ReauthorizeError) AuthorizeURL(state string) (string, error) {
	return e.client.AuthorizeURL(state)
}

// Error names the user and the reason.
func (e *ReauthorizeError) Error() string {
	return "tokens: " + e.Key.String() + " must authorize again: " + string(e.Reason)
}

// Unwrap returns the platform's answer, or nil.
func (e *ReauthorizeError) Unwrap() error { return e.cause }

// Is matches [api.ErrReauthorize], and [tokenstore.ErrNoRecord] for a user who is not
// connected.
func (e *ReauthorizeError) Is(target error) bool {
	return target == api.ErrReauthorize || (target == tokenstore.ErrNoRecord && e.Reason == tokenstore.ReasonNotConnected)
}

// Format prints [ReauthorizeError.Error] for every verb.
func (e *ReauthorizeError) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, e.Error()) }

// LogValue returns the fields that are safe to log, as a group.
func (e *ReauthorizeError) LogValue() slog.Value {
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

// needsUser reports errors that go away only when the user authorizes again.
func needsUser(err error) bool { return errors.Is(err, api.ErrReauthorize) }

// panicked reports a panic of a store or a transport, which must not take the
// whole program down from a goroutine in which no one can recover it. The value
// may hold anything, so only its type is shown.
func panicked(value any) error { return fmt.Errorf("panic with a %T", value) }

// recoverAsError turns a panic into an error; to be deferred.
func recoverAsError(err *error) {
	if v := recover(); v != nil {
		*err = panicked(v)
	}
}
