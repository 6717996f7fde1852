package tokenstore

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/ids"
)

// Key names the token of one user in one environment. It is comparable. Users
// of the United States and of Canada, of production and of the sandbox, are
// different users even where User is the same.
// API section: "Authentication" 4.
type Key struct {
	Environment api.Environment

	// User is the integrator's own id of the practitioner or staff member
	// whose token this is: 1 to 255 bytes of UTF-8 without control characters
	// and without space around it. It appears in errors and logs, so it should
	// be an opaque id, not a name or an e-mail address.
	User string
}

// Validate reports an environment that does not exist and a user that no store
// has to take.
func (k Key) Validate() error {
	if err := k.Environment.Validate(); err != nil {
		return err
	}
	if k.User == "" {
		return &api.ArgumentError{Field: "tokenstore.Key.User", Reason: "is empty"}
	}
	return ids.Validate("tokenstore.Key.User", k.User)
}

// ValidateToken reports why token must not be stored under the key: the key is
// invalid, the token is empty, the id of its clinic is none that a key could hold, or it
// belongs to another environment ([api.ErrWrongEnvironment]). Every [Store] begins Save, SaveVersion
// and Commit with it.
func (k Key) ValidateToken(token oauth.Token) error {
	switch err := k.Validate(); {
	case err != nil:
		return err
	case token.AccessToken.IsZero():
		return &api.ArgumentError{Field: "oauth.Token.AccessToken", Reason: "is empty"}
	case token.Environment != k.Environment:
		return fmt.Errorf("%w: the token is for %s, not for %s", api.ErrWrongEnvironment, token.Environment, k.Environment)
	}
	return ids.ValidateClinic(token.Clinic)
}

// String returns environment and user, as in "us/sandbox/user-17".
func (k Key) String() string { return k.Environment.String() + "/" + k.User }

// State says whether a stored token may be used and refreshed.
type State string

// The states of a [Record].
const (
	// StateActive: the token is used, and refreshed when it is due.
	StateActive State = "active"

	// StateReauthorize: only the user can help, by authorizing again, as far
	// as is known. [Record.Reason] says why.
	StateReauthorize State = "reauthorize"
)

// Reason is a code for why a user has to authorize again.
type Reason string

// The reasons of a [Record], and of a tokens.ReauthorizeError.
const (
	// ReasonNotConnected: nothing is stored for the user.
	ReasonNotConnected Reason = "not_connected"

	// ReasonInvalidGrant: the platform does not accept the refresh token any
	// more: the user or the application revoked it, or scopes were added to
	// the application. Also if the token has none, which the API does not provide for.
	ReasonInvalidGrant Reason = "invalid_grant"

	// ReasonScopesExtended: the application has scopes it did not have when
	// the user authorized. See [oauth.Config].
	ReasonScopesExtended Reason = "scopes_extended"

	// ReasonOwnerChanged: a refresh returned a token of another account of the platform.
	// It was neither used nor stored. Like a rejected refresh token it is retried
	// later, since the platform may have mixed up two responses.
	ReasonOwnerChanged Reason = "owner_changed"

	// ReasonDisconnecting: the user was disconnected here, but the platform
	// could not be reached yet. Call Disconnect again.
	ReasonDisconnecting Reason = "disconnecting"
)

// Record is what a [Store] holds under a [Key]. It prints no secret.
type Record struct {
	Key Key

	// Token is the user's current token. In [StateReauthorize] it is the last
	// one there was: who it belonged to stays known.
	Token oauth.Token

	// Version counts the writes of the record. It is never used twice for a
	// key; see [Store].
	Version int64

	// State and Reason say whether the token may be used. Reason is empty in
	// [StateActive].
	State  State
	Reason Reason

	// UpdatedAt is when the record was last written, by the store's clock.
	UpdatedAt time.Time
}

// String returns key, version and state.
func (r Record) String() string {
	text := fmt.Sprintf("tokenstore.Record{%s version %d %s", r.Key, r.Version, r.State)
	if r.Reason != "" {
		text += " " + string(r.Reason)
	}
	return text + "}"
}

// Format prints [Record.String] for every verb.
func (r Record) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue returns the fields that are safe to log, as a group.
func (r Record) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("key", r.Key.String()),
		slog.Int64("version", r.Version),
		slog.String("state", string(r.State)),
		slog.String("reason", string(r.Reason)),
		slog.Any("token", r.Token),
	)
}
