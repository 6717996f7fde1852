package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/defaults"
	"github.com/dispensary-go/dispensary/internal/jsondecode"
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
// Errors are [ErrCodeRejected], [*ConfigError] or another [*api.Error].
// API section: "OAuth" (POST /oauth/token), "Authentication" 3.
func (c *Client) Exchange(ctx context.Context, code api.Secret, options ...api.RequestOption) (Token, error) {
	if code.IsZero() {
		return Token{}, &api.ArgumentError{Operation: operation.OAuthToken.Name, Field: "code", Reason: "is empty"}
	}
	body := c.newGrant("authorization_code")
	body.Code = revealed(code.Reveal())
	token, err := c.requestToken(ctx, body, options)
	if isInvalidGrant(err) {
		return Token{}, fmt.Errorf("%w: %w", ErrCodeRejected, err)
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

// tokenResponse is the content of a token response. Only the access token must exist and be
// valid. The old pair may already be invalid, so a malformed optional field must not lose the
// new pair.
type tokenResponse struct {
	accessToken, refreshToken api.Secret
	tokenType, scope          string
	lifetime                  time.Duration
	createdAt                 time.Time // zero if missing
	owner                     ResourceOwner
}

var errNoAccessToken = errors.New("no usable access token")

// UnmarshalJSON decodes the object under the oauth key.
func (a *tokenResponse) UnmarshalJSON(data []byte) error {
	var wire struct {
		AccessToken   json.RawMessage `json:"access_token"`
		RefreshToken  json.RawMessage `json:"refresh_token"`
		TokenType     json.RawMessage `json:"token_type"`
		ExpiresIn     json.RawMessage `json:"expires_in"`
		Scope         json.RawMessage `json:"scope"`
		CreatedAt     json.RawMessage `json:"created_at"`
		ResourceOwner json.RawMessage `json:"resource_owner"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*a = tokenResponse{
		accessToken:  api.NewSecret(text(wire.AccessToken)),
		refreshToken: api.NewSecret(text(wire.RefreshToken)),
		tokenType:    text(wire.TokenType),
		lifetime:     lifetime(wire.ExpiresIn),
		scope:        scope(wire.Scope),
		createdAt:    timestamp(wire.CreatedAt),
		owner:        owner(wire.ResourceOwner),
	}
	if a.tokenType == "" {
		a.tokenType = "Bearer"
	}
	if !sendable(a.accessToken.Reveal()) {
		return errNoAccessToken
	}
	return nil
}

// sendable reports whether a header can carry token. RFC 6750, section 2.1, allows fewer
// characters, but a platform may use others.
func sendable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// text returns a JSON string, or "" for any other value.
func text(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// scope returns the usual string, and also accepts a list of strings.
func scope(raw json.RawMessage) string {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		return strings.Join(list, " ")
	}
	return text(raw)
}

func owner(raw json.RawMessage) ResourceOwner {
	var wire struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}
	_, _ = jsondecode.Unmarshal(raw, &wire)
	return ResourceOwner{ID: wire.ID, Type: wire.Type}
}

// maxLifetime prevents an overflow of a duration if expires_in is absurd.
const maxLifetime = 10 * 365 * 24 * time.Hour

// lifetime returns expires_in, a number of seconds that may also be a string (assumption). If
// it is unreadable or not above zero, the result is the documented 2 hours: a token that is
// expired from the start would be refreshed again and again.
func lifetime(raw json.RawMessage) time.Duration {
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 {
		return defaults.TokenLifetime
	}
	if seconds >= maxLifetime.Seconds() {
		return maxLifetime
	}
	return time.Duration(seconds * float64(time.Second))
}

// timestamp returns created_at. The API specifies ISO 8601. Unix seconds or milliseconds, as a
// number or a string, are accepted too (assumption).
func timestamp(raw json.RawMessage) time.Time {
	const firstMillisecond = 1e11 // as seconds, this is the year 5138
	seconds, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64)
	if err == nil && seconds > 0 && seconds < firstMillisecond*1000 {
		if seconds >= firstMillisecond {
			seconds /= 1000
		}
		integer, fraction := math.Modf(seconds)
		return time.Unix(int64(integer), int64(fraction*1e9)).UTC()
	}
	var t api.Timestamp
	if t.UnmarshalJSON(raw) != nil {
		return time.Time{}
	}
	return t.UTC()
}

// token returns the token of a response to a request sent at the given time. The age of the
// token is the difference between two readings of the platform's own clock: its creation and
// the Date of the response. The remaining life is counted from the moment of sending. A wrong
// local clock therefore does no harm, and the token never expires before ExpiresAt.
func (a *tokenResponse) token(sent time.Time, header http.Header) Token {
	remaining := a.lifetime
	if date, ok := transport.ResponseTime(header); ok && !a.createdAt.IsZero() {
		// An age below zero or beyond the lifetime shows that the two readings come from
		// different clocks.
		if age := date.Sub(a.createdAt); age > 0 && age < a.lifetime {
			remaining -= age
		}
	}
	return Token{
		AccessToken:   a.accessToken,
		RefreshToken:  a.refreshToken,
		TokenType:     a.tokenType,
		CreatedAt:     a.createdAt,
		ExpiresAt:     sent.Add(remaining),
		Lifetime:      a.lifetime,
		Scope:         a.scope,
		ResourceOwner: a.owner,
	}
}

// admissionTime is the validity of an admission, because the limit applies when a request is
// sent.
const admissionTime = time.Second

// admission is a request that the limiter has already permitted.
type admission struct {
	until time.Time
	used  atomic.Bool
}

type admissionKey struct{}

// Admit waits until [Config.Limiter] permits a request to the token endpoint. The first
// request with the returned context then does not wait again if it is sent within 1 second. A
// caller can thus wait before it takes a lock or a lease. Without a limiter, Admit returns
// ctx. The error is the limiter's, or the error of ctx.
func (c *Client) Admit(ctx context.Context) (context.Context, error) {
	if c.config.Limiter == nil {
		return ctx, ctx.Err()
	}
	if err := c.config.Limiter.Wait(ctx); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, admissionKey{}, &admission{until: time.Now().Add(admissionTime)}), nil
}

// admittingLimiter permits an admitted request immediately.
type admittingLimiter struct{ inner api.Limiter }

// Wait implements [api.Limiter].
func (l admittingLimiter) Wait(ctx context.Context) error {
	if a, ok := ctx.Value(admissionKey{}).(*admission); ok && !a.used.Swap(true) && time.Now().Before(a.until) {
		return ctx.Err()
	}
	return l.inner.Wait(ctx)
}
