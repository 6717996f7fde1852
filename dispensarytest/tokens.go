package dispensarytest

import (
	"errors"
	"fmt"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// IssueToken gives a user's consent without the browser, and returns the
// tokens. Without scopes the token has the application's. Scopes the API does
// not have panic.
func (s *Server) IssueToken(user model.User, scopes ...string) model.Token {
	if err := operations.CheckScopes(scopes); err != nil {
		panic(err)
	}
	user = s.userLike(user)
	defer s.changes.Notify()
	return s.tokens.Issue(user, scopes)
}

// userLike finds the platform's own record of a user, by id or e-mail address;
// the zero User is the first practitioner.
func (s *Server) userLike(user model.User) model.User {
	for _, known := range s.Users() {
		if user == (model.User{}) || user.ID == known.ID || user.ID == "" && user.Email == known.Email {
			return known
		}
	}
	panic(fmt.Sprintf("dispensarytest: there is no user %q; see Server.Users", user.Email))
}

// ExpireToken lets an access token expire now; its refresh token stays good.
func (s *Server) ExpireToken(accessToken string) error {
	defer s.changes.Notify()
	if !s.tokens.Expire(accessToken, s.clock.Now()) {
		return errors.New("dispensarytest: ExpireToken: no such access token")
	}
	return nil
}

// InvalidateTokens ends every token and refresh token there is; users have to
// authorize again.
func (s *Server) InvalidateTokens() {
	defer s.changes.Notify()
	s.tokens.InvalidateAll()
}

// ExtendScopes adds scopes to the application, which invalidates every token and
// refresh token obtained before. API section: "Authentication" 5.
func (s *Server) ExtendScopes(scopes ...string) error {
	if err := operations.CheckScopes(scopes); err != nil {
		return err
	}
	defer s.changes.Notify()
	s.tokens.Extend(scopes)
	return nil
}

// Credentials returns every access token, refresh token and open authorization
// code, in this order, the oldest access token first. A console shows them; a
// test rather keeps what it was given.
func (s *Server) Credentials() []model.Credential {
	return s.tokens.Credentials(s.clock.Now())
}
