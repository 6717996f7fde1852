package dispensarytest

import (
	"crypto/rand"
	"net"
	"net/http"
	"time"
)

// sessionLifetime is how long a browser stays signed in: an assumption.
const sessionLifetime = 12 * time.Hour

// session is a browser that somebody signed in with.
type session struct {
	userID  string
	expires time.Time
}

// sessionCookie is the name of the cookie that holds a session. Browsers send cookies
// to every port of a host; with the port in the name, two platforms on one machine do
// not sign each other's users out.
func (c *call) sessionCookie() string {
	if _, port, err := net.SplitHostPort(c.r.Host); err == nil {
		return "dispensary_session_" + port
	}
	return "dispensary_session"
}

func (c *call) sessionToken() string {
	cookie, err := c.r.Cookie(c.sessionCookie())
	if err != nil {
		return ""
	}
	return cookie.Value
}

// signedIn is who the browser is signed in as; nil where that is nobody.
func (c *call) signedIn() *User {
	id := c.srv.tokens.sessionUser(c.sessionToken())
	if id == "" {
		return nil
	}
	for _, user := range c.srv.Users() {
		if user.ID == id {
			return &user
		}
	}
	return nil
}

// remember signs the browser in, until it is closed, in place of who was.
func (c *call) remember(w http.ResponseWriter, user User) {
	c.srv.tokens.endSession(c.sessionToken())
	c.setSession(w, &http.Cookie{Value: c.srv.tokens.openSession(user.ID)})
}

// signOut ends the browser's session.
func (c *call) signOut(w http.ResponseWriter) {
	c.srv.tokens.endSession(c.sessionToken())
	c.setSession(w, &http.Cookie{MaxAge: -1})
}

func (c *call) setSession(w http.ResponseWriter, cookie *http.Cookie) {
	cookie.Name, cookie.Path = c.sessionCookie(), "/"
	cookie.HttpOnly, cookie.SameSite, cookie.Secure = true, http.SameSiteLaxMode, c.r.TLS != nil
	http.SetCookie(w, cookie)
}

// openSession remembers a session and returns its token.
func (s *tokenStore) openSession(userID string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	makeRoom(s.sessions, func(one session) bool { return !now.Before(one.expires) })
	token := rand.Text()
	s.sessions[token] = session{userID: userID, expires: now.Add(sessionLifetime)}
	return token
}

// sessionUser is the id of the user of a live session, or "".
func (s *tokenStore) sessionUser(token string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if one, ok := s.sessions[token]; ok && s.clock.Now().Before(one.expires) {
		return one.userID
	}
	return ""
}

func (s *tokenStore) endSession(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, token)
}

// endSessions signs everybody out.
func (s *tokenStore) endSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}
