package httpapi

import (
	"net"
	"net/http"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// sessionCookie is the name of the cookie that holds a session. Browsers send cookies
// to every port of a host; with the port in the name, two platforms on one machine do
// not sign each other's users out.
func (c *Call) sessionCookie() string {
	if _, port, err := net.SplitHostPort(c.R.Host); err == nil {
		return "dispensary_session_" + port
	}
	return "dispensary_session"
}

func (c *Call) sessionToken() string {
	cookie, err := c.R.Cookie(c.sessionCookie())
	if err != nil {
		return ""
	}
	return cookie.Value
}

// signedIn is who the browser is signed in as; nil where that is nobody.
func (c *Call) signedIn() *model.User {
	id := c.API.Tokens.SessionUser(c.sessionToken())
	if id == "" {
		return nil
	}
	for _, user := range c.API.Store.Users() {
		if user.ID == id {
			return &user
		}
	}
	return nil
}

// remember signs the browser in, until it is closed, in place of who was.
func (c *Call) remember(w http.ResponseWriter, user model.User) {
	c.API.Tokens.EndSession(c.sessionToken())
	c.setSession(w, &http.Cookie{Value: c.API.Tokens.OpenSession(user.ID)})
}

// signOut ends the browser's session.
func (c *Call) signOut(w http.ResponseWriter) {
	c.API.Tokens.EndSession(c.sessionToken())
	c.setSession(w, &http.Cookie{MaxAge: -1})
}

func (c *Call) setSession(w http.ResponseWriter, cookie *http.Cookie) {
	cookie.Name, cookie.Path = c.sessionCookie(), "/"
	cookie.HttpOnly, cookie.SameSite, cookie.Secure = true, http.SameSiteLaxMode, c.R.TLS != nil
	http.SetCookie(w, cookie)
}
