package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
	"github.com/dispensary-go/dispensary/internal/transport"
)

// grant is the body of a call to the token endpoint.
// API section: "OAuth" (POST /oauth/token).
type grant struct {
	GrantType    string   `json:"grant_type"`
	ClientID     string   `json:"client_id"`
	ClientSecret revealed `json:"client_secret"`
	RedirectURI  string   `json:"redirect_uri"`
	Code         revealed `json:"code,omitempty"`
	RefreshToken revealed `json:"refresh_token,omitempty"`
}

// newGrant returns a body with the credentials of the application.
func (c *Client) newGrant(grantType string) grant {
	return grant{
		GrantType: grantType, ClientID: c.config.ClientID, ClientSecret: revealed(c.config.ClientSecret.Reveal()), RedirectURI: c.config.RedirectURL,
	}
}

// revocation is the body of a call to the revoke endpoint.
// API section: "OAuth" (POST /oauth/revoke).
type revocation struct {
	ClientID     string   `json:"client_id"`
	ClientSecret revealed `json:"client_secret"`
	Token        revealed `json:"token"`
}

// revealed is a secret that JSON contains as it is. It prints as "[redacted]". Its kind
// is string, so that the transport can check its text.
type revealed string

// MarshalJSON writes the secret.
func (r revealed) MarshalJSON() ([]byte, error) { return json.Marshal(string(r)) }

// Format redacts the secret for every verb.
func (r revealed) Format(f fmt.State, verb rune) { api.NewSecret(string(r)).Format(f, verb) }

// Exchange turns the code of a callback ([ParseCallback]) into the user's first
// token. A code works once and for 10 minutes, and an exchange whose answer was
// lost is never repeated. After any error the user can be sent through the flow
// again, except after a [*ConfigError]: that needs a change of the configuration.
//
// Errors: [ErrCodeRefused]; [*ConfigError]; otherwise [*api.Error].
// API section: "OAuth" (POST /oauth/token), "Authentication" 3.
func (c *Client) Exchange(ctx context.Context, code api.Secret, options ...api.RequestOption) (Token, error) {
	if code.IsZero() {
		return Token{}, &api.ArgumentError{Operation: operation.OAuthToken.Name, Field: "code", Reason: "is empty"}
	}
	body := c.newGrant("authorization_code")
	body.Code = revealed(code.Reveal())
	token, err := c.requestToken(ctx, body, options)
	if isInvalidGrant(err) {
		return Token{}, fmt.Errorf("%w: %w", ErrCodeRefused, err)
	}
	token.ConfiguredScope, token.ConnectedAt = c.config.configuredScope(), token.UsedAt
	return token, err
}

// Refresh exchanges the refresh token of old for a new token and returns it. What
// the answer leaves out (a refresh token, the scope, the owner) is kept from
// old. Store the result before its access token is used: with the first use the
// platform may forget the old pair (assumption).
//
// Programs with users should not call this but use a token source of package
// oauth/tokens, which sees to it that each refresh token is sent by one caller at
// a time.
//
// Errors: one that matches [api.ErrReauthorize] if the platform does not know the
// refresh token any more, or there is none; one that matches [ErrOwnerChanged] and
// [api.ErrReauthorize] if the new token acts for another resource owner; [*ConfigError];
// [api.ErrWrongEnvironment]; otherwise [*api.Error], after which the old refresh
// token may be tried again.
// API section: "OAuth" (POST /oauth/token), "Authentication" 4.
func (c *Client) Refresh(ctx context.Context, old Token, options ...api.RequestOption) (Token, error) {
	if old.Environment != c.Environment() {
		return Token{}, wrongEnvironment(old.Environment, c.Environment())
	}
	if old.RefreshToken.IsZero() {
		return Token{}, fmt.Errorf("oauth: there is no refresh token: %w", api.ErrReauthorize)
	}
	body := c.newGrant("refresh_token")
	body.RefreshToken = revealed(old.RefreshToken.Reveal())
	token, err := c.requestToken(ctx, body, options)
	if isInvalidGrant(err) {
		return Token{}, fmt.Errorf("oauth: the refresh token was refused: %w: %w", api.ErrReauthorize, err)
	}
	if err != nil {
		return Token{}, err
	}
	if before, after := old.ResourceOwner.ID, token.ResourceOwner.ID; before != "" && after != "" && before != after {
		return Token{}, fmt.Errorf("%w: %w", ErrOwnerChanged, api.ErrReauthorize)
	}
	token.ConfiguredScope, token.ConnectedAt = old.ConfiguredScope, old.ConnectedAt
	token.Clinic, token.Replaced = old.Clinic, old.Replaced
	if token.RefreshToken.IsZero() {
		token.RefreshToken = old.RefreshToken
	}
	if token.Scope == "" {
		token.Scope = old.Scope
	}
	if token.ResourceOwner == (ResourceOwner{}) {
		token.ResourceOwner = old.ResourceOwner
	}
	return token, nil
}

// Revoke ends a token at the platform together with its refresh token; the user
// has to authorize again after that. The token may have expired. Delete the
// record from the store too: revoking does not touch it.
//
// Revoke succeeds only if the platform itself responds with a JSON object that reports no
// error. A sign-in page or a gateway that responds with 200 has revoked no token: the
// error matches [api.ErrMaybeApplied].
//
// Errors: [api.ErrWrongEnvironment]; [*ConfigError]; otherwise [*api.Error].
// Repeating a call that failed is safe.
// API section: "OAuth" (POST /oauth/revoke), "Authentication" 6.
func (c *Client) Revoke(ctx context.Context, token Token, options ...api.RequestOption) error {
	if token.Environment != c.Environment() {
		return wrongEnvironment(token.Environment, c.Environment())
	}
	if token.AccessToken.IsZero() {
		return &api.ArgumentError{Operation: operation.OAuthRevoke.Name, Field: "token", Reason: "is empty"}
	}
	return classify(c.Environment(), transport.Do(ctx, c.transport, transport.Call{
		Operation: operation.OAuthRevoke,
		Body:      revocation{c.config.ClientID, revealed(c.config.ClientSecret.Reveal()), revealed(token.AccessToken.Reveal())},
		Options:   options,
	}))
}

// requestToken calls the token endpoint.
func (c *Client) requestToken(ctx context.Context, body grant, options []api.RequestOption) (Token, error) {
	var response api.Response
	sent := time.Now().Round(0) // a monotonic clock stands still while the machine sleeps
	got, err := transport.One[tokenResponse](ctx, c.transport, transport.Call{
		Operation: operation.OAuthToken,
		Body:      body,
		Options:   append(slices.Clip(options), api.CaptureResponse(&response)),
	})
	if err != nil {
		return Token{}, classify(c.Environment(), err)
	}
	token := got.token(sent, response.Header)
	token.Environment = c.Environment()
	token.UsedAt = sent
	return token, nil
}

// isInvalidGrant reports the platform's word that a code or a refresh token is
// not, or no longer, good. The status it comes with does not matter.
func isInvalidGrant(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == "invalid_grant"
}
