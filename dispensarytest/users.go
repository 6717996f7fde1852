package dispensarytest

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Token is a live pair of tokens.
type Token struct {
	ID           string // names the token in the journal
	AccessToken  string
	RefreshToken string
	Scopes       []string
	CreatedAt    time.Time
	ExpiresAt    time.Time
	User         User
}

// IssueToken gives a user's consent without the browser, and returns the
// tokens. Without scopes the token has the application's. Scopes the API does
// not have panic.
func (s *Server) IssueToken(user User, scopes ...string) Token {
	if err := checkScopes(scopes); err != nil {
		panic(err)
	}
	user = s.userLike(user)
	defer s.changes.Notify()
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	if len(scopes) == 0 {
		scopes = s.tokens.scopes
	}
	t, refresh := s.tokens.pair(&grant{user: user, scopes: slices.Clone(scopes)}, "", "")
	return Token{
		ID: t.id, AccessToken: t.value, RefreshToken: refresh, Scopes: slices.Clone(scopes),
		CreatedAt: t.created, ExpiresAt: t.expires, User: user,
	}
}

// userLike finds the platform's own record of a user, by id or e-mail address;
// the zero User is the first practitioner.
func (s *Server) userLike(user User) User {
	for _, known := range s.Users() {
		if user == (User{}) || user.ID == known.ID || user.ID == "" && user.Email == known.Email {
			return known
		}
	}
	panic(fmt.Sprintf("dispensarytest: there is no user %q; see Server.Users", user.Email))
}

// ExpireToken lets an access token expire now; its refresh token stays good.
func (s *Server) ExpireToken(accessToken string) error {
	defer s.changes.Notify()
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	t, ok := s.tokens.access[accessToken]
	if !ok {
		return errors.New("dispensarytest: ExpireToken: no such access token")
	}
	t.expires = s.clock.Now()
	return nil
}

// InvalidateTokens ends every token and refresh token there is; users have to
// authorize again.
func (s *Server) InvalidateTokens() {
	defer s.changes.Notify()
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	s.tokens.invalidate()
}

// ExtendScopes adds scopes to the application, which invalidates every token and
// refresh token obtained before. API section: "Authentication" 5.
func (s *Server) ExtendScopes(scopes ...string) error {
	if err := checkScopes(scopes); err != nil {
		return err
	}
	defer s.changes.Notify()
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	merged := merge(s.tokens.scopes, scopes)
	if len(merged) > len(s.tokens.scopes) {
		s.tokens.scopes = merged
		s.tokens.invalidate()
	}
	return nil
}

// invalidate ends all consents. The caller holds mu.
func (s *tokenStore) invalidate() {
	for _, t := range s.access {
		t.grant.obsolete = true
	}
	for _, g := range s.refresh {
		g.obsolete = true
	}
	clear(s.codes)
}
