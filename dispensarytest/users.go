package dispensarytest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
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

// Approve walks the authorize page as a user would: it opens the address, signs
// in, authorizes, and returns where the browser is sent, with code and state.
func (s *Server) Approve(authorizeURL string, user User) (*url.URL, error) {
	return s.walk(authorizeURL, user, "authorize")
}

// Decline is Approve for a user who signs in and cancels.
func (s *Server) Decline(authorizeURL string, user User) (*url.URL, error) {
	return s.walk(authorizeURL, user, "cancel")
}

func (s *Server) walk(authorizeURL string, user User, decision string) (*url.URL, error) {
	browser := *s.client
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	user = s.userLike(user)
	var at visit
	err := at.open(browser.Get(authorizeURL))
	if err == nil && at.next == nil {
		err = at.open(browser.PostForm(authorizeURL, url.Values{"flow": {at.flow}, "email": {user.Email}, "password": {user.Password}, "decision": {"signin"}}))
	}
	if err == nil && at.next == nil {
		err = at.open(browser.PostForm(authorizeURL, url.Values{"flow": {at.flow}, "decision": {decision}}))
	}
	if err == nil && at.next == nil {
		err = errors.New("dispensarytest: the authorize page did not send the browser back")
	}
	return at.next, err
}

// visit is what a browser sees of the authorize page.
type visit struct {
	flow string
	next *url.URL
}

var flowField = regexp.MustCompile(`name="flow" value="([^"]+)"`)

func (v *visit) open(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusSeeOther {
		v.next, err = resp.Location()
		return err
	}
	field := flowField.FindSubmatch(page)
	if resp.StatusCode != http.StatusOK || field == nil {
		return fmt.Errorf("dispensarytest: the authorize page answered %s", resp.Status)
	}
	v.flow = string(field[1])
	return nil
}
