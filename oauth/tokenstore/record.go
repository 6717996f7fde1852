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

// Key identifies the token of one user in one environment. It is comparable. The United States
// and Canada, production and sandbox are different environments, so the same User in two of
// them is two users.
//
// API section: "Authentication" 4.
type Key struct {
	Environment api.Environment

	// User is your own ID of the practitioner or staff member: 1 to 255 bytes of UTF-8 without
	// control characters and without leading or trailing space. It appears in errors and logs,
	// so use an opaque ID and not a name or an e-mail address.
	User string
}

// Validate returns an [*api.ArgumentError] if the user is not one that every store must
// accept, or the error of [api.Environment.Validate] if the environment does not exist.
func (k Key) Validate() error {
	if err := k.Environment.Validate(); err != nil {
		return err
	}
	if k.User == "" {
		return &api.ArgumentError{Field: "tokenstore.Key.User", Reason: "is empty"}
	}
	return ids.Validate("tokenstore.Key.User", k.User)
}

// ValidateToken returns an error if token must not be stored under the key. Every [Store]
// calls it first in Save, SaveVersion and Commit. Errors:
//
//   - an error of [Key.Validate]
//   - an [*api.ArgumentError] if the access token is empty, or if the clinic's ID is not
//     empty and would be invalid as a user ID
//   - [api.ErrWrongEnvironment] if the token belongs to another environment
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

// String returns the environment and the user, as in "us/sandbox/user-17".
func (k Key) String() string { return k.Environment.String() + "/" + k.User }

// State is the state of a stored token: usable, or waiting for the user to authorize again.
type State string

// States of a [Record].
const (
	// StateActive: the token can be used, and is refreshed when it is due.
	StateActive State = "active"

	// StateReauthorize: as far as is known, the user has to authorize again. [Record.Reason]
	// has the reason.
	StateReauthorize State = "reauthorize"
)

// Reason is a code for the reason why a user has to authorize again.
type Reason string

// Reasons of a [Record] and of a tokens.ReauthorizeError.
const (
	// ReasonNotConnected: no record is stored for the user.
	ReasonNotConnected Reason = "not_connected"

	// ReasonInvalidGrant: the platform no longer accepts the refresh token, because the user or
	// the application revoked it or because the application has new scopes. Also if the token
	// has no refresh token. The API does not provide for such a token.
	ReasonInvalidGrant Reason = "invalid_grant"

	// ReasonScopesExtended: the application has scopes that it did not have when the user
	// authorized. See [oauth.Config].
	ReasonScopesExtended Reason = "scopes_extended"

	// ReasonOwnerChanged: a refresh returned a token of another account of the platform. That
	// token is neither used nor stored. The refresh is retried later, like one with a rejected
	// refresh token, because the platform may have mixed up two responses.
	ReasonOwnerChanged Reason = "owner_changed"

	// ReasonDisconnecting: your program disconnected the user, but has not reached the platform
	// yet. Call Disconnect again.
	ReasonDisconnecting Reason = "disconnecting"
)

// Record is the content of a [Store] under one [Key]. It prints no secret.
type Record struct {
	Key Key

	// Token is the user's current token. In [StateReauthorize] it is the last known token,
	// which still names the owner.
	Token oauth.Token

	// Version identifies one write of the record. It grows with every write, and no key ever
	// has the same version twice. See [Store].
	Version int64

	// State and Reason report whether the token may be used. Reason is empty in [StateActive].
	State  State
	Reason Reason

	// UpdatedAt is the time of the last write, by the store's clock.
	UpdatedAt time.Time
}

// String returns the key, the version, the state and the reason if there is one.
func (r Record) String() string {
	text := fmt.Sprintf("tokenstore.Record{%s version %d %s", r.Key, r.Version, r.State)
	if r.Reason != "" {
		text += " " + string(r.Reason)
	}
	return text + "}"
}

// Format prints [Record.String] for every verb.
func (r Record) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, r.String()) }

// LogValue returns a group of the fields that are safe to log.
func (r Record) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("key", r.Key.String()),
		slog.Int64("version", r.Version),
		slog.String("state", string(r.State)),
		slog.String("reason", string(r.Reason)),
		slog.Any("token", r.Token),
	)
}
