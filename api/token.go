package api

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// AccessToken is a bearer token, bound to the environment that issued it. It never prints its
// secret.
// API section: "Authentication" 1 and "Oauth token".
type AccessToken struct {
	// Secret is the bearer token.
	Secret Secret

	// Environment is the environment that issued the token. A client of another environment, or
	// of none, rejects the token with [ErrWrongEnvironment].
	Environment Environment

	// Account is the account of the platform that the token acts for. The zero value means
	// unknown.
	Account Account

	// ExpiresAt is the expiry time of the token. Zero means unknown.
	ExpiresAt time.Time

	// Scope contains the granted scopes as the platform wrote them. Empty means unknown. The
	// API does not document the separator. Assumption: spaces (RFC 6749, section 3.3). Commas
	// and plus signs are read too.
	Scope string
}

// Scopes returns the granted scopes one by one. It is empty if they are unknown.
func (t AccessToken) Scopes() []string { return strings.FieldsFunc(t.Scope, separatesScopes) }

func separatesScopes(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '+' }

// HasScope reports whether the token was granted scope or its group. Assumption: a group
// grants all of its scopes, for example clinic grants clinic:read and clinic:write. The API
// names the groups without a description. HasScope is false if the scopes are unknown.
// API section: "Authentication" 7.
func (t AccessToken) HasScope(scope string) bool {
	group, _, _ := strings.Cut(scope, ":")
	for granted := range strings.FieldsFuncSeq(t.Scope, separatesScopes) { // runs for every call, so it must not allocate
		if granted == scope || granted == group {
			return true
		}
	}
	return false
}

// TokenSource returns the access token for each call. Implementations must be safe for
// concurrent use, return quickly if they have a valid token, and stop waiting when ctx ends.
type TokenSource interface {
	// Token returns a token that is valid now. It refreshes the token first if necessary.
	Token(ctx context.Context) (AccessToken, error)
}

// TokenRefresher is a [TokenSource] that can replace a token after the platform rejected it. A
// client calls Refresh at most once per call. With a plain TokenSource, a 401 is final.
type TokenRefresher interface {
	TokenSource

	// Refresh returns a token newer than rejected, for which the platform responded with 401.
	// If another caller has already replaced rejected, Refresh returns that newer token and
	// sends nothing. It returns rejected itself if a refresh is not expected to help now. The
	// 401 is then final.
	Refresh(ctx context.Context, rejected AccessToken) (AccessToken, error)
}
