package oauth

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// ResourceOwner is who a token acts for.
// API section: "Oauth token" (resource_owner).
type ResourceOwner struct {
	// ID is the platform's id of the practitioner, staff member or clinic.
	ID string `json:"id"`

	// Type is [ResourceOwnerPractitioner], [ResourceOwnerClinic], [ResourceOwnerStaff], or a type that
	// was not known when this was written.
	Type string `json:"type"`
}

// The known types of a [ResourceOwner].
const (
	// ResourceOwnerPractitioner is what role-based applications see.
	ResourceOwnerPractitioner = "Practitioner"

	// ResourceOwnerClinic is what applications made before 2021-08-26 see: the token
	// acts for a clinic.
	ResourceOwnerClinic = "Clinic"

	// ResourceOwnerStaff is an assumption: the API mentions staff as users and does
	// not list the type.
	ResourceOwnerStaff = "Staff"
)

// Clinic is a clinic of the platform as GET /clinic shows it to a token.
// API section: "Clinic".
type Clinic struct {
	// ID is the platform's id of the clinic, which events carry as well.
	ID string `json:"id"`

	// IntegrationID is that of the application's connection with the clinic.
	IntegrationID string `json:"integration_id"`

	// Name is the clinic's name when the platform was last asked. It is for display: names
	// change and are not unique.
	Name string `json:"name,omitempty"`
}

// ReplacedGrant is an authorization that a newer [Token] of its user has replaced and that
// is not revoked yet. Its refresh token does not expire.
type ReplacedGrant struct {
	AccessToken  api.Secret `json:"access_token"`
	RefreshToken api.Secret `json:"refresh_token"`

	// ExpiresAt, ResourceOwner and Clinic are those of the replaced token.
	ExpiresAt     time.Time     `json:"expires_at,omitzero"`
	ResourceOwner ResourceOwner `json:"resource_owner"`
	Clinic        Clinic        `json:"clinic,omitzero"`
}

// Token is one authorization of one user: the pair of access and refresh token
// and what came with it. It is a plain value. It prints, logs and encodes to
// JSON without its secrets; a store writes the fields, revealed and sealed, on
// purpose.
// API section: "Oauth token".
type Token struct {
	// AccessToken is the bearer token of every call.
	AccessToken api.Secret `json:"access_token"`

	// RefreshToken buys the next pair. It does not expire, and it may change
	// with every refresh.
	RefreshToken api.Secret `json:"refresh_token"`

	// TokenType is "Bearer".
	TokenType string `json:"token_type"`

	// CreatedAt is when the platform made the access token, by the platform's
	// clock; zero if it did not say.
	CreatedAt time.Time `json:"created_at,omitzero"`

	// ExpiresAt is when the platform stops accepting the access token, by the
	// clock of the machine that received it: however wrong that clock is, the
	// token is replaced in time. Zero if it is not known; such a token is used
	// until the platform refuses it.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// Lifetime is the whole life of the access token from its creation on; 0
	// if it is not known. Short-lived tokens are refreshed closer to their end
	// than others, in proportion.
	Lifetime time.Duration `json:"lifetime"`

	// Scope holds the granted scopes as the platform wrote them; see
	// [Token.Scopes].
	Scope string `json:"scope"`

	// ConfiguredScope holds [Config.Scopes] of the time when the user
	// authorized, sorted and separated by spaces; empty if not known. Scopes
	// added to the application since then have made this token invalid.
	ConfiguredScope string `json:"configured_scope,omitempty"`

	// ConnectedAt is when the user authorized, by the clock of the machine that
	// exchanged the code; refreshes keep it. Zero if it is not known.
	ConnectedAt time.Time `json:"connected_at,omitzero"`

	// UsedAt is when a token of this user was last fetched because it was needed:
	// the user connected, or a call found the token near its end. Refreshes in
	// the background do not count, so that users without calls can be distinguished from
	// others without a write for each call; it may lag behind by as long as tokens
	// are kept fresh in the background. Zero if it is not known.
	UsedAt time.Time `json:"used_at,omitzero"`

	// RejectedAt is when the platform first rejected RefreshToken, by the clock of the machine
	// that sent it. Zero if it was not rejected. Package oauth/tokens sets it.
	RejectedAt time.Time `json:"rejected_at,omitzero"`

	// ResourceOwner is who the token acts for.
	ResourceOwner ResourceOwner `json:"resource_owner"`

	// Clinic is the one that the user belonged to when the platform was last asked;
	// refreshes keep it. Zero if it is not known.
	Clinic Clinic `json:"clinic,omitzero"`

	// Replaced contains the grants that this token has replaced and that are not revoked
	// yet, the oldest first; refreshes keep them. Treat it as immutable. Package
	// oauth/tokens adds and removes them.
	Replaced []ReplacedGrant `json:"replaced,omitempty"`

	// Environment issued the token. No other environment takes it.
	Environment api.Environment `json:"environment"`
}

// Access returns what a call is authorized with.
func (t Token) Access() api.AccessToken {
	return api.AccessToken{Secret: t.AccessToken, Environment: t.Environment, ExpiresAt: t.ExpiresAt, Scope: t.Scope}
}

// Scopes returns the granted scopes.
func (t Token) Scopes() []string { return t.Access().Scopes() }

// wrongEnvironment matches [api.ErrWrongEnvironment].
func wrongEnvironment(token, want api.Environment) error {
	return fmt.Errorf("%w: the token is for %s, not for %s", api.ErrWrongEnvironment, token, want)
}

// String says whom the token is for and when it ends, without its secrets.
func (t Token) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "oauth.Token{%s %s %s", t.Environment, t.ResourceOwner.Type, t.ResourceOwner.ID)
	if !t.ExpiresAt.IsZero() {
		b.WriteString(" expires " + t.ExpiresAt.UTC().Format(time.RFC3339))
	}
	fmt.Fprintf(&b, " access %s refresh %s}", t.AccessToken, t.RefreshToken)
	return b.String()
}

// Format prints [Token.String] for every verb.
func (t Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// LogValue returns the fields that are safe to log, as a group.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("environment", t.Environment.String()),
		slog.String("owner_type", t.ResourceOwner.Type),
		slog.String("owner_id", t.ResourceOwner.ID),
		slog.String("scope", t.Scope),
		slog.Time("expires_at", t.ExpiresAt),
	)
}

// UnmarshalJSON always fails. The JSON of a Token is for people to read and has
// no secrets in it; a store that would keep tokens that way finds out here, and
// not when all its users have to authorize again.
func (t *Token) UnmarshalJSON([]byte) error {
	return errors.New("oauth: a Token cannot be read from JSON, which is written without its secrets: store its fields")
}
