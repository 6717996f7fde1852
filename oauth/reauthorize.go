package oauth

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// Reason is a code for why a user has to authorize again.
type Reason string

// The reasons of a [ReauthorizeError].
const (
	// ReasonNotConnected: nothing is stored for the user.
	ReasonNotConnected Reason = "not_connected"

	// ReasonInvalidGrant: the platform does not know the refresh token any
	// more: the user or the application revoked it, or scopes were added to
	// the application.
	ReasonInvalidGrant Reason = "invalid_grant"

	// ReasonNoRefreshToken: the access token ended and there is nothing to
	// refresh it with.
	ReasonNoRefreshToken Reason = "no_refresh_token"

	// ReasonScopesExtended: the application has scopes it did not have when
	// the user authorized. See [Config.Scopes].
	ReasonScopesExtended Reason = "scopes_extended"

	// ReasonDisconnecting: the user was disconnected here, but the platform
	// could not be told yet. Call [Client.Disconnect] again.
	ReasonDisconnecting Reason = "disconnecting"
)

// ReauthorizeError says that a user has to go through the authorization page
// again, and why. It matches [ErrReauthorize], and [ErrNoRecord] where nothing
// is stored. It is remembered in the [Store], with the token, and returned without
// asking the platform. Only where the platform refused the refresh token does a
// call try that again, a minute later at first and then once an hour: should it
// be taken after all, the call succeeds and [Restored] is raised.
type ReauthorizeError struct {
	// Key says which user; its User is empty where the token was in no store.
	Key Key

	// Reason says why.
	Reason Reason

	// Owner is who the last token acted for; zero if that is not known.
	Owner ResourceOwner

	client    *Client // nil where no application is involved
	cause     error
	retryFrom time.Time // from here on the mark may be put to the test; zero is never
}

// reauthorize makes the error; cause may be nil.
func (c *Client) reauthorize(key Key, reason Reason, owner ResourceOwner, cause error) *ReauthorizeError {
	return &ReauthorizeError{Key: key, Reason: reason, Owner: owner, client: c, cause: cause}
}

// AuthorizeURL returns where to send the user's browser, as
// [Client.AuthorizeURL] does. It fails for a token of [Static] or
// [FromOAuth2], which belong to no [Client].
func (e *ReauthorizeError) AuthorizeURL(state string) (string, error) {
	if e.client == nil {
		return "", errors.New("dispensary: the token belongs to no oauth.Client, which would know the authorization page")
	}
	return e.client.AuthorizeURL(state)
}

// Error names the user and the reason.
func (e *ReauthorizeError) Error() string {
	who := e.Key.String()
	if e.Key.User == "" {
		who = "the user of a " + e.Key.Environment.String() + " token"
	}
	return "dispensary: " + who + " must authorize again: " + string(e.Reason)
}

// Unwrap returns the answer of the platform that told so, or nil.
func (e *ReauthorizeError) Unwrap() error { return e.cause }

// Is matches [ErrReauthorize], and [ErrNoRecord] for a user who is not
// connected.
func (e *ReauthorizeError) Is(target error) bool {
	return target == ErrReauthorize || (target == ErrNoRecord && e.Reason == ReasonNotConnected)
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

// needsUser reports errors that only the user can mend.
func needsUser(err error) bool { return errors.Is(err, api.ErrReauthorize) }
