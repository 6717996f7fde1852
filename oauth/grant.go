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

// grant is the body of a request to the token endpoint.
// API section: "OAuth" (POST /oauth/token).
type grant struct {
	GrantType    string   `json:"grant_type"`
	ClientID     string   `json:"client_id"`
	ClientSecret revealed `json:"client_secret"`
	RedirectURI  string   `json:"redirect_uri"`
	Code         revealed `json:"code,omitempty"`
	RefreshToken revealed `json:"refresh_token,omitempty"`
}

// newGrant returns a body that contains the credentials of the application.
func (c *Client) newGrant(grantType string) grant {
	return grant{
		GrantType: grantType, ClientID: c.config.ClientID, ClientSecret: revealed(c.config.ClientSecret.Reveal()), RedirectURI: c.config.RedirectURL,
	}
}

// revocation is the body of a request to the revoke endpoint.
// API section: "OAuth" (POST /oauth/revoke).
type revocation struct {
	ClientID     string   `json:"client_id"`
	ClientSecret revealed `json:"client_secret"`
	Token        revealed `json:"token"`
}

// revealed is a secret that is encoded to JSON as it is. It prints as "[redacted]". Its kind
// is string, so that the transport can validate its text.
type revealed string

// MarshalJSON encodes the secret itself.
func (r revealed) MarshalJSON() ([]byte, error) { return json.Marshal(string(r)) }

// Format redacts the secret for every verb.
func (r revealed) Format(f fmt.State, verb rune) { api.NewSecret(string(r)).Format(f, verb) }

// Exchange sends the code of a callback ([ParseCallback]) and returns the user's first token.
// A code works once and for 10 minutes. Exchange never repeats a request whose response was
// lost. After an error, you can send the user through the flow again, except after a
// [*ConfigError], which needs a change of the configuration.
//
// Errors are [ErrCodeRefused], [*ConfigError] or another [*api.Error].
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

// Refresh sends the refresh token of old and returns a new token. It keeps the refresh token,
// the scope and the owner of old if the response omits them. Store the result before you use
// its access token. With the first use, the platform may invalidate the old pair (assumption).
//
// If your program has users, call a token source of package oauth/tokens instead. It ensures
// that only one caller at a time sends a refresh token.
//
// Errors:
//
//   - [api.ErrReauthorize]: the platform no longer accepts the refresh token, or old has none.
//   - [ErrOwnerChanged], which also matches [api.ErrReauthorize]: the new token acts for
//     another resource owner.
//   - [*ConfigError]: the platform rejects the application.
//   - [api.ErrWrongEnvironment]: old belongs to another environment.
//   - [*api.Error]: any other failed request. You can retry with the same refresh token.
//
// API section: "OAuth" (POST /oauth/token), "Authentication" 4.
func (c *Client) Refresh(ctx context.Context, old Token, options ...api.RequestOption) (Token, error) {
	if old.Environment != c.Environment() {
		return Token{}, wrongEnvironment(old.Environment, c.Environment())
	}
	if old.RefreshToken.IsZero() {
		return Token{}, fmt.Errorf("oauth: the token has no refresh token: %w", api.ErrReauthorize)
	}
	body := c.newGrant("refresh_token")
	body.RefreshToken = revealed(old.RefreshToken.Reveal())
	token, err := c.requestToken(ctx, body, options)
	if isInvalidGrant(err) {
		return Token{}, fmt.Errorf("oauth: the platform rejected the refresh token: %w: %w", api.ErrReauthorize, err)
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

// Revoke invalidates a token and its refresh token at the platform, so that the user must
// authorize again. The token may have expired before. Revoke does not touch the store: delete
// the record too.
//
// Revoke succeeds only if the platform itself responds with a JSON object that reports no
// error. A sign-in page or a gateway that responds with 200 has revoked no token, so the error
// matches [api.ErrMaybeApplied].
//
// Errors are [api.ErrWrongEnvironment], [*ConfigError] or another [*api.Error]. You can safely
// retry after an error.
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

// requestToken sends body to the token endpoint and returns the token of the response.
func (c *Client) requestToken(ctx context.Context, body grant, options []api.RequestOption) (Token, error) {
	var response api.Response
	sent := time.Now().Round(0) // a monotonic clock stops during system sleep
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

// isInvalidGrant reports whether the platform rejected a code or a refresh token. The status
// of the response does not matter.
func isInvalidGrant(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == "invalid_grant"
}
