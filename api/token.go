package api

import (
	"context"
	"slices"
	"strings"
	"time"
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

	// Scope holds the granted scopes, separated by spaces, as the platform
	// wrote them; empty if they are not known.
	Scope string
}

// HasScope reports whether the token was granted scope. It is false where the
// scopes are not known.
func (t AccessToken) HasScope(scope string) bool {
	return slices.Contains(strings.Fields(t.Scope), scope)
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
	// token is returned and nothing is sent.
	Refresh(ctx context.Context, rejected AccessToken) (AccessToken, error)

	// Reject tells that rejected, although just refreshed, was answered with
	// 401: the user has to authorize again. It returns the error that says so.
	Reject(ctx context.Context, rejected AccessToken) error
}
