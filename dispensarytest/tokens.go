package dispensarytest

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// Tokens are the access and refresh tokens of the integrator's application.
type Tokens struct{ server *Server }

// Issue gives a user's consent without the browser, and returns the
// tokens. Without scopes the token has the application's. Scopes the API does
// not have panic.
func (t Tokens) Issue(user model.User, scopes ...string) model.Token {
	if err := operations.CheckScopes(scopes); err != nil {
		panic(err)
	}
	user = t.userLike(user)
	defer t.server.changes.Notify()
	return t.server.tokens.Issue(user, scopes)
}

// userLike finds the platform's own record of a user, by id or e-mail address;
// the zero User is the first practitioner.
func (t Tokens) userLike(user model.User) model.User {
	for _, known := range t.server.Users() {
		if user == (model.User{}) || user.ID == known.ID || user.ID == "" && user.Email == known.Email {
			return known
		}
	}
	panic(fmt.Sprintf("dispensarytest: there is no user %q; see Server.Users", user.Email))
}

// Expire lets an access token expire now; its refresh token stays good.
func (t Tokens) Expire(accessToken string) error {
	defer t.server.changes.Notify()
	if !t.server.tokens.Expire(accessToken, t.server.clock.Now()) {
		return errors.New("dispensarytest: Tokens.Expire: no such access token")
	}
	return nil
}

// InvalidateAll ends every token and refresh token there is; users have to
// authorize again.
func (t Tokens) InvalidateAll() {
	defer t.server.changes.Notify()
	t.server.tokens.InvalidateAll()
}

// Revoke ends the consent of one user, as if the user had withdrawn it: every access
// token, refresh token and open code of the user. All other users keep theirs. The zero
// User is the first practitioner. Revoke panics if the platform has no such user.
func (t Tokens) Revoke(user model.User) {
	user = t.userLike(user)
	defer t.server.changes.Notify()
	t.server.tokens.RevokeUser(user.ID)
}

// ExtendScopes adds scopes to the application, which invalidates every token and
// refresh token obtained before. API section: "Authentication" 5.
func (t Tokens) ExtendScopes(scopes ...string) error {
	if err := operations.CheckScopes(scopes); err != nil {
		return err
	}
	defer t.server.changes.Notify()
	t.server.tokens.Extend(scopes)
	return nil
}

// Credentials returns every access token, refresh token and open authorization
// code, in this order, the oldest access token first. A console shows them; a
// test rather keeps what it was given.
func (t Tokens) Credentials() []model.Credential {
	return t.server.tokens.Credentials(t.server.clock.Now())
}

// Scopes returns the scopes of the API, and the names of the groups clinic and patients,
// which stand for all scopes of theirs. API section: "Authentication" 7.
func Scopes() []string { return operations.Scopes() }
