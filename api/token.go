package api

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// AccessToken is what one call is authorized with: the bearer token, bound to
// the environment that issued it. It prints no secret in any form.
// API section: "Authentication" 1 and "Oauth token".
type AccessToken struct {
	// Secret is the bearer token.
	Secret Secret

	// Environment issued the token. A client of another environment, or of
	// none, refuses the token with [ErrWrongEnvironment].
	Environment Environment

	// ExpiresAt is when the platform stops accepting the token; zero if that
	// is not known.
	ExpiresAt time.Time

	// Scope holds the granted scopes as the platform wrote them; empty if they
	// are not known. The API does not say what separates them: spaces are assumed
	// (RFC 6749, section 3.3), commas and plus signs are read too.
	Scope string
}

// Scopes returns the granted scopes one by one; none if they are not known.
func (t AccessToken) Scopes() []string { return strings.FieldsFunc(t.Scope, separatesScopes) }

func separatesScopes(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '+' }

// HasScope reports whether the token was granted scope, or the group it belongs
// to: clinic grants clinic:read and clinic:write (assumption: the API names the
// groups and does not describe them). It is false where the scopes are not known.
// API section: "Authentication" 7.
func (t AccessToken) HasScope(scope string) bool {
	group, _, _ := strings.Cut(scope, ":")
	for granted := range strings.FieldsFuncSeq(t.Scope, separatesScopes) { // every call asks: no allocation
		if granted == scope || granted == group {
			return true
		}
	}
	return false
}

// TokenSource gives each call its access token. Implementations are safe for
// concurrent use, return quickly when the token they hold is valid, and stop
// waiting when ctx ends.
type TokenSource interface {
	// Token returns a token that is valid now, refreshing it first if needed.
	Token(ctx context.Context) (AccessToken, error)
}

// TokenRefresher is a [TokenSource] that can replace a token the platform has
// refused. A client calls it at most once in a call; without it a 401 is final.
type TokenRefresher interface {
	TokenSource

	// Refresh returns a token newer than rejected, which was answered with
	// 401. Where another caller has replaced rejected already, that newer
	// token is returned and nothing is sent. It returns rejected itself where
	// a refresh is not expected to help now: the 401 is final.
	Refresh(ctx context.Context, rejected AccessToken) (AccessToken, error)
}
