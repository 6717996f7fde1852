package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/api"
)

// ResourceOwner is the account that a token acts for.
// API section: "Oauth token" (resource_owner).
type ResourceOwner struct {
	// ID is the platform's ID of the practitioner, staff member or clinic.
	ID string `json:"id"`

	// Type is [ResourceOwnerPractitioner], [ResourceOwnerClinic], [ResourceOwnerStaff], or a
	// type unknown to this version.
	Type string `json:"type"`
}

// The known types of a [ResourceOwner].
const (
	// ResourceOwnerPractitioner is the type for role-based applications.
	ResourceOwnerPractitioner = "Practitioner"

	// ResourceOwnerClinic is the type for applications created before 2021-08-26. The token
	// acts for a clinic.
	ResourceOwnerClinic = "Clinic"

	// ResourceOwnerStaff is an assumption: the API mentions staff as users but does not list
	// the type.
	ResourceOwnerStaff = "Staff"
)

// Clinic is a clinic of the platform, as GET /clinic returns it for a token.
// API section: "Clinic".
type Clinic struct {
	// ID is the platform's ID of the clinic. Events contain it as well.
	ID string `json:"id"`

	// IntegrationID is the ID of the application's connection with the clinic.
	IntegrationID string `json:"integration_id"`

	// Name is the clinic's name at the last check, for display only: names change and are not
	// unique.
	Name string `json:"name,omitempty"`
}

// ReplacedGrant is an authorization that a newer [Token] of its user has replaced and that is
// not yet revoked. Its refresh token does not expire.
type ReplacedGrant struct {
	AccessToken  api.Secret `json:"access_token"`
	RefreshToken api.Secret `json:"refresh_token"`

	// ExpiresAt, ResourceOwner and Clinic are copied from the replaced token.
	ExpiresAt     time.Time     `json:"expires_at,omitzero"`
	ResourceOwner ResourceOwner `json:"resource_owner"`
	Clinic        Clinic        `json:"clinic,omitzero"`
}

// Token is one authorization of one user: a pair of access and refresh token with its details.
// It is a plain value. It prints, logs and encodes to JSON without its secrets. A store must
// reveal and encrypt the secret fields explicitly.
// API section: "Oauth token".
type Token struct {
	// AccessToken is the bearer token of every call.
	AccessToken api.Secret `json:"access_token"`

	// RefreshToken is sent to get the next pair. It does not expire, and each refresh may
	// replace it.
	RefreshToken api.Secret `json:"refresh_token"`

	// TokenType is "Bearer".
	TokenType string `json:"token_type"`

	// CreatedAt is the time when the platform created the access token, by the platform's
	// clock. Zero if the response did not contain it.
	CreatedAt time.Time `json:"created_at,omitzero"`

	// ExpiresAt is the time when the platform stops accepting the access token, by the clock
	// of the receiving replica. The token is therefore replaced in time even if that clock is
	// wrong. Zero if unknown: such a token is used until the platform rejects it.
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// Lifetime is the whole life of the access token since its creation. 0 if unknown. A
	// short-lived token is refreshed proportionally closer to its expiry.
	Lifetime time.Duration `json:"lifetime"`

	// Scope contains the granted scopes as the platform returned them. See [Token.Scopes].
	Scope string `json:"scope"`

	// ConfiguredScope contains [Config.Scopes] at the time of authorization, sorted and
	// separated by spaces. Empty if unknown. Scopes added to the application since then have
	// invalidated this token.
	ConfiguredScope string `json:"configured_scope,omitempty"`

	// ConnectedAt is the time when the user authorized, by the clock of the replica that
	// exchanged the code. Refreshes keep it. Zero if unknown.
	ConnectedAt time.Time `json:"connected_at,omitzero"`

	// UsedAt is the last time when a token of this user was fetched on demand: the user
	// connected, or a call found the token near its expiry. Refreshes in the background do not
	// count. UsedAt distinguishes active users from users without calls, and needs no write
	// for each call. It may lag behind by the time for which tokens are kept fresh in the
	// background. Zero if unknown.
	UsedAt time.Time `json:"used_at,omitzero"`

	// RejectedAt is the time when the platform first rejected RefreshToken, or when the user was
	// marked for another reason, by the clock of the replica that noticed it. Zero if neither
	// has happened. Package oauth/tokens sets it.
	RejectedAt time.Time `json:"rejected_at,omitzero"`

	// ResourceOwner is the account that the token acts for.
	ResourceOwner ResourceOwner `json:"resource_owner"`

	// Clinic is the user's clinic at the last check. Refreshes keep it. Zero if unknown.
	Clinic Clinic `json:"clinic,omitzero"`

	// Replaced contains the grants that this token has replaced and that are not yet revoked,
	// oldest first. Refreshes keep them. Treat it as immutable. Package oauth/tokens adds and
	// removes them.
	Replaced []ReplacedGrant `json:"replaced,omitempty"`

	// Environment is the environment that issued the token. Every other environment rejects
	// it.
	Environment api.Environment `json:"environment"`
}

// Access returns the part of the token that authorizes a call.
func (t Token) Access() api.AccessToken {
	return api.AccessToken{Secret: t.AccessToken, Environment: t.Environment, Account: t.Account(), ExpiresAt: t.ExpiresAt, Scope: t.Scope}
}

// Account returns the account that the token acts for.
func (t Token) Account() api.Account {
	return api.Account{OwnerType: t.ResourceOwner.Type, OwnerID: t.ResourceOwner.ID, ClinicID: t.Clinic.ID}
}

// Scopes returns the granted scopes as a list.
func (t Token) Scopes() []string { return t.Access().Scopes() }

// wrongEnvironment returns an error that matches [api.ErrWrongEnvironment].
func wrongEnvironment(token, want api.Environment) error {
	return fmt.Errorf("%w: the token is for %s, not for %s", api.ErrWrongEnvironment, token, want)
}

// String returns the environment, the owner and the expiry, without the secrets.
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

// LogValue returns the safe fields as a group: environment, owner, scope and expiry.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("environment", t.Environment.String()),
		slog.String("owner_type", t.ResourceOwner.Type),
		slog.String("owner_id", t.ResourceOwner.ID),
		slog.String("scope", t.Scope),
		slog.Time("expires_at", t.ExpiresAt),
	)
}

// UnmarshalJSON always fails, because the JSON of a Token is for people and contains no
// secrets. A store that relies on it thus fails early, and not once all its users have to
// authorize again.
func (t *Token) UnmarshalJSON([]byte) error {
	return errors.New("oauth: cannot decode a Token, because its JSON omits the secrets: store its fields")
}

// FromOAuth2 returns a token source that authorizes calls in environment with tokens from
// golang.org/x/oauth2. It has the limits of that library:
//
//   - A call with a 401 response is not repeated with a fresh token.
//   - If the context of a caller ends, the caller returns but the call to source continues,
//     because its Token method accepts no context. Only one such call runs at a time.
//   - A token with an expiry is reused until 10 seconds before it, without a call to source.
//   - No token is stored, and several processes refresh independently of each other.
//   - The environment is not verified.
//
// The text of a [*oauth2.RetrieveError] does not show the body of the response. With the code
// invalid_grant, it matches [api.ErrReauthorize].
func FromOAuth2(source oauth2.TokenSource, environment api.Environment) api.TokenSource {
	return &foreignSource{source: source, environment: environment, turn: make(chan struct{}, 1)}
}

type foreignSource struct {
	source      oauth2.TokenSource
	environment api.Environment
	turn        chan struct{} // contains one element while source.Token runs
	current     atomic.Pointer[api.AccessToken]
}

// Format keeps fmt from reading the unexported token.
func (s *foreignSource) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "oauth.FromOAuth2") }

// foreignMargin is the time before expiry at which x/oauth2 itself considers a token expired.
const foreignMargin = 10 * time.Second

func (s *foreignSource) Token(ctx context.Context) (api.AccessToken, error) {
	if token := s.held(); token != nil {
		return *token, nil
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return api.AccessToken{}, ctx.Err()
	}
	type outcome struct {
		token api.AccessToken
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errors.New("oauth: the x/oauth2 token source ended without a result")} // in case of runtime.Goexit
		defer func() {
			if v := recover(); v != nil {
				o.err = fmt.Errorf("oauth: the x/oauth2 token source panicked with a %T", v)
			}
			<-s.turn
			done <- o
		}()
		o.token, o.err = s.ask()
	}()
	select {
	case o := <-done:
		return o.token, o.err
	case <-ctx.Done():
		return api.AccessToken{}, ctx.Err()
	}
}

// held returns the last token, or nil unless it is known to be valid.
func (s *foreignSource) held() *api.AccessToken {
	token := s.current.Load()
	if token == nil || token.ExpiresAt.IsZero() || !time.Now().Before(token.ExpiresAt.Add(-foreignMargin)) {
		return nil
	}
	return token
}

func (s *foreignSource) ask() (api.AccessToken, error) {
	if token := s.held(); token != nil {
		return *token, nil // another caller fetched it while this one waited
	}
	got, err := s.source.Token()
	switch {
	case err != nil:
		return api.AccessToken{}, &foreignError{err}
	case got == nil || got.AccessToken == "":
		return api.AccessToken{}, errors.New("oauth: the x/oauth2 token source returned no token")
	}
	token := api.AccessToken{Secret: api.NewSecret(got.AccessToken), Environment: s.environment, ExpiresAt: got.Expiry.Round(0)}
	token.Scope, _ = got.Extra("scope").(string)
	s.current.Store(&token)
	return token, nil
}

// foreignError hides the response in the text of x/oauth2's errors.
type foreignError struct{ err error }

func (e *foreignError) Error() string {
	const prefix = "oauth: x/oauth2 token source: "
	var response *oauth2.RetrieveError
	if !errors.As(e.err, &response) {
		return prefix + e.err.Error()
	}
	text := prefix + "the token endpoint rejected the request"
	if isErrorCode(response.ErrorCode) && response.ErrorCode != "" {
		text += ": " + response.ErrorCode
	}
	if response.Response != nil {
		text += " (status " + strconv.Itoa(response.Response.StatusCode) + ")"
	}
	return text
}

func (e *foreignError) Unwrap() error { return e.err }

func (e *foreignError) Is(target error) bool {
	var response *oauth2.RetrieveError
	return target == api.ErrReauthorize && errors.As(e.err, &response) && response.ErrorCode == "invalid_grant"
}
