package dispensarytest

import "github.com/dispensary-go/dispensary/dispensarytest/model"

// Tokens are the access and refresh tokens of the integrator's application.
type Tokens interface {
	// Issue grants a user's consent without the browser, and returns the tokens. Without
	// scopes the token has the application's scopes. It panics on an unknown scope or user.
	Issue(user model.User, scopes ...string) model.Token

	// Expire expires an access token now. Its refresh token stays valid.
	Expire(accessToken string) error

	// InvalidateAll invalidates every access and refresh token. Users must authorize again.
	InvalidateAll()

	// Revoke ends the consent of one user, like a withdrawal by the user: every access token,
	// refresh token and open code of the user. All other users keep theirs. The zero User is
	// the first practitioner. Revoke panics if the platform has no such user.
	Revoke(user model.User)

	// ExtendScopes adds scopes to the application, which invalidates every token and
	// refresh token. API section: "Authentication" 5.
	ExtendScopes(scopes ...string) error

	// Credentials returns every access token, refresh token and open authorization code, in
	// this order, with the oldest access token first.
	Credentials() []model.Credential
}
