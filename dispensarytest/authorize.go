package dispensarytest

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// pageHandler answers a browser and returns the status it sent.
type pageHandler func(c *call, w http.ResponseWriter) int

// maxFlows bounds the open authorize pages.
const maxFlows = 1000

// flow is an authorize page that waits for its form. Its token works once, so
// that no other site can send the form on the user's behalf.
type flow struct {
	token   string
	query   string // of the page's address
	state   string
	user    *User // nil until somebody signed in
	expires time.Time
}

// authorizeView is what the page shows.
type authorizeView struct {
	App      string
	Clinic   string
	User     *User // nil until somebody signed in
	Scopes   []scopeInfo
	Users    []User
	Flow     string
	Email    string
	Redirect string
}

// authorizePage is GET /oauth/authorize. Client and redirect address have to
// match exactly; scopes in the request are ignored.
func authorizePage(c *call, w http.ResponseWriter) int {
	query, err := parseParams(c.r.URL.RawQuery)
	if err != nil {
		return c.pageProblem(w, http.StatusBadRequest, "The address of this page is malformed.")
	}
	c.record.Unknown = query.unknown(c.op.query)
	if query.get("client_id") != c.srv.app.ClientID || query.get("redirect_uri") != c.srv.app.RedirectURI {
		return c.pageProblem(w, http.StatusNotFound, "No application has this client_id and redirect_uri. Both must equal what the application registered, character for character.")
	}
	switch query.get("response_type") {
	case "code":
	case "":
		return c.leave(w, query.get("state"), url.Values{"error": {"invalid_request"}})
	default:
		return c.leave(w, query.get("state"), url.Values{"error": {"unsupported_response_type"}})
	}
	open := flow{query: c.r.URL.RawQuery, state: query.get("state"), user: c.signedIn()}
	return c.showStep(w, http.StatusOK, open, "", "")
}

// authorizeAnswer takes the page's forms: signing in, authorizing, cancelling, and
// signing in as somebody else.
func authorizeAnswer(c *call, w http.ResponseWriter) int {
	if err := http.NewCrossOriginProtection().Check(c.r); err != nil {
		return c.pageProblem(w, http.StatusForbidden, "This form was sent from another site.")
	}
	c.r.Body = http.MaxBytesReader(w, c.r.Body, maxBody)
	if err := c.r.ParseForm(); err != nil {
		return c.pageProblem(w, http.StatusBadRequest, "The form is malformed.")
	}
	open, known := c.srv.tokens.takeFlow(c.r.PostForm.Get("flow"))
	if !known {
		return c.pageProblem(w, http.StatusForbidden, "This form was already sent, or is too old. Start again from the application.")
	}
	decision := c.r.PostForm.Get("decision")
	switch {
	case decision == "cancel":
		return c.leave(w, open.state, url.Values{"error": {"access_denied"}, "error_description": {"The resource owner or authorization server denied the request."}})
	case open.user == nil:
		return c.signIn(w, open)
	case decision == "authorize":
		c.record.UserID = open.user.ID
		return c.leave(w, open.state, url.Values{"code": {c.srv.tokens.newCode(*open.user)}})
	case decision == "switch":
		c.signOut(w)
		return c.reopen(w, open)
	default:
		return c.showStep(w, http.StatusOK, open, "", "")
	}
}

// signIn remembers who signed in and opens the page's address anew, so that reloading
// the consent page sends no form. After a wrong password the form keeps its token, so
// that reloading tries it again.
func (c *call) signIn(w http.ResponseWriter, open flow) int {
	email := c.r.PostForm.Get("email")
	for _, user := range c.srv.Users() {
		if strings.EqualFold(user.Email, strings.TrimSpace(email)) && user.Password == c.r.PostForm.Get("password") {
			c.remember(w, user)
			return c.reopen(w, open)
		}
	}
	return c.showStep(w, http.StatusUnprocessableEntity, open, email, "E-mail address or password is wrong.")
}

// showStep shows the form for where the flow stands.
func (c *call) showStep(w http.ResponseWriter, status int, open flow, email, message string) int {
	f := &frame{Title: "Sign in", Message: message, Leaves: true}
	view := authorizeView{
		App: c.srv.app.Name, Redirect: c.srv.app.RedirectURI,
		Flow: c.srv.tokens.openFlow(open), Email: email, Users: c.srv.Users(),
	}
	if open.user != nil {
		f.Title, view.User = "Authorize "+c.srv.app.Name, open.user
		view.Clinic = c.srv.clinicName(open.user.clinicID)
		for _, name := range c.srv.Application().Scopes {
			info, _ := findScope(name)
			view.Scopes = append(view.Scopes, info)
		}
	}
	f.send(w, status, "authorize", view)
	return status
}

func (c *call) pageProblem(w http.ResponseWriter, status int, message string) int {
	c.record.Refused = []string{message}
	f := &frame{Title: http.StatusText(status), Message: message, Leaves: true}
	f.send(w, status, "problem", nil)
	return status
}

// leave sends the browser back to the application.
func (c *call) leave(w http.ResponseWriter, state string, answer url.Values) int {
	if state != "" {
		answer.Set("state", state)
	}
	target, _ := url.Parse(c.srv.app.RedirectURI) // checked on construction
	query := target.Query()
	for name, values := range answer {
		query[name] = values
	}
	target.RawQuery = query.Encode()
	return seeOther(w, target.String())
}

// reopen sends the browser to the address that the page was opened at.
func (c *call) reopen(w http.ResponseWriter, open flow) int { return seeOther(w, "?"+open.query) }

func seeOther(w http.ResponseWriter, location string) int {
	w.Header().Set("Location", location)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
	return http.StatusSeeOther
}

// openFlow remembers a flow and returns the token of its form: its own, or a fresh one
// where it has none.
func (s *tokenStore) openFlow(f flow) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	makeRoom(s.flows, func(f flow) bool { return !now.Before(f.expires) })
	f.expires = now.Add(codeLifetime)
	f.token = cmp.Or(f.token, rand.Text())
	s.flows[f.token] = f
	return f.token
}

// makeRoom deletes what is over, and more where that is not enough, so that one more
// fits.
func makeRoom[T any](all map[string]T, over func(T) bool) {
	if len(all) < maxFlows {
		return
	}
	for token, one := range all {
		if len(all) >= maxFlows || over(one) {
			delete(all, token)
		}
	}
}

// takeFlow returns the flow of a form; the token works once.
func (s *tokenStore) takeFlow(token string) (flow, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.flows[token]
	delete(s.flows, token)
	return f, ok && s.clock.Now().Before(f.expires)
}
