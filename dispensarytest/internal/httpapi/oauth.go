package httpapi

import (
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/form"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/pages"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// tokenView is the oauth object. API section: "Oauth token".
type tokenView struct {
	AccessToken  string    `json:"access_token"`
	TokenType    string    `json:"token_type"`
	ExpiresIn    any       `json:"expires_in"` // a number, or a string under some behaviors
	RefreshToken string    `json:"refresh_token"`
	Scope        string    `json:"scope"`
	CreatedAt    string    `json:"created_at"`
	Owner        ownerView `json:"resource_owner"`
}

type ownerView struct {
	ID   string `json:"id"`
	Type string `json:"type"`
}

// grantRejected is the error for an invalid code or refresh token. The platform does not
// distinguish the causes.
const grantRejected = "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client."

// createToken implements POST /oauth/token. The JSON body is from the API. Status and shape of
// its errors are an assumption.
func createToken(c *call, _ *store.World) (reply, error) {
	grantType := c.form.Text("grant_type").Is
	code, refresh := c.form.Text("code").Is, c.form.Text("refresh_token").Is
	required := []string{"grant_type", "redirect_uri"}
	switch grantType {
	case "authorization_code":
		required = append(required, "code")
	case "refresh_token":
		required = append(required, "refresh_token")
	}
	if err := c.client(required...); err != nil {
		return reply{}, err
	}
	if c.form.Text("redirect_uri").Is != c.api.App.RedirectURI {
		return reply{}, oauthProblem(http.StatusBadRequest, "invalid_grant", grantRejected)
	}
	var token *tokens.AccessToken
	var next string
	var good bool
	switch grantType {
	case "authorization_code":
		token, next, good = c.api.Tokens.Redeem(code)
	case "refresh_token":
		token, next, good = c.api.Tokens.Renew(refresh, c.behaviors)
	default:
		return reply{}, oauthProblem(http.StatusBadRequest, "unsupported_grant_type", "The authorization grant type is not supported by the authorization server.")
	}
	if !good {
		return reply{}, oauthProblem(http.StatusBadRequest, "invalid_grant", grantRejected)
	}
	c.record.TokenID, c.record.UserID = token.ID, token.Grant.User.ID
	return ok(c.api.viewToken(token, next)), nil
}

// revokeToken implements POST /oauth/revoke. The API requires the application's credentials.
// Three points are assumptions: an unknown token is not an error (RFC 7009), a refresh token
// can be revoked, and the reach of a revocation.
func revokeToken(c *call, _ *store.World) (reply, error) {
	token := c.form.Text("token").Is
	if err := c.client("token"); err != nil {
		return reply{}, err
	}
	if !c.api.Tokens.RevokeToken(token, c.behaviors) && c.behaviors.Is(behavior.UnknownTokenRevocationRejected) {
		return reply{}, oauthProblem(http.StatusBadRequest, "invalid_request", "The token is not known.")
	}
	return bare(struct{}{}), nil
}

// client checks the application's credentials and the required fields.
func (c *call) client(required ...string) error {
	id, secret := c.form.Text("client_id").Is, c.form.Text("client_secret").Is
	for _, name := range append([]string{"client_id", "client_secret"}, required...) {
		if c.form.Text(name).Is == "" {
			return oauthProblem(http.StatusBadRequest, "invalid_request", "Missing required parameter: "+name+".")
		}
	}
	if id != c.api.App.ClientID || secret != c.api.App.ClientSecret {
		return oauthProblem(http.StatusUnauthorized, "invalid_client", "Client authentication failed due to unknown client, no client authentication included, or unsupported authentication method.")
	}
	return nil
}

func (a *API) viewToken(t *tokens.AccessToken, refresh string) tokenView {
	owner := ownerView{ID: t.Grant.User.ID, Type: t.Grant.User.Type}
	if a.ClinicTokens {
		owner = ownerView{ID: t.ClinicID, Type: "Clinic"}
	}
	var life any = int(tokens.TokenLifetime.Seconds())
	if a.Behaviors.Get().Is(behavior.ExpiresInString) {
		life = strconv.Itoa(int(tokens.TokenLifetime.Seconds()))
	}
	return tokenView{
		AccessToken: t.Value, TokenType: "Bearer", ExpiresIn: life,
		RefreshToken: refresh, Scope: operations.ScopeText(t.Grant.Scopes), CreatedAt: view.Time(t.Created), Owner: owner,
	}
}

// browserPage responds to a browser. Its methods return the status that they sent.
type browserPage struct {
	*call
	w http.ResponseWriter
}

type pageHandler func(*browserPage) int

// authorizeView contains the data of the page.
type authorizeView struct {
	App      string
	Clinic   string
	User     *model.User // nil before sign-in
	Scopes   []operations.Scope
	Users    []model.User
	Flow     string
	Email    string
	Redirect string
}

// authorizePage implements GET /oauth/authorize. Client and redirect URI must match exactly.
// It ignores scopes in the request.
func authorizePage(p *browserPage) int {
	query, err := parseQuery(p.request.URL.RawQuery)
	if err != nil {
		return p.problem(http.StatusBadRequest, "The URL of this page is malformed.")
	}
	p.record.Unknown = form.Strays("", query.values, p.op.Query)
	if query.get("client_id") != p.api.App.ClientID || query.get("redirect_uri") != p.api.App.RedirectURI {
		return p.problem(http.StatusNotFound, "No application has this client_id and redirect_uri. Both must match the registration character for character.")
	}
	switch query.get("response_type") {
	case "code":
	case "":
		return p.leave(query.get("state"), url.Values{"error": {"invalid_request"}})
	default:
		return p.leave(query.get("state"), url.Values{"error": {"unsupported_response_type"}})
	}
	open := tokens.Flow{Query: p.request.URL.RawQuery, State: query.get("state"), User: p.signedIn()}
	return p.showStep(http.StatusOK, open, "", "")
}

// authorizeResponse handles the page's forms: sign in, authorize, cancel, and sign in as another
// user.
func authorizeResponse(p *browserPage) int {
	if err := http.NewCrossOriginProtection().Check(p.request); err != nil {
		return p.problem(http.StatusForbidden, "This form was sent from another site.")
	}
	p.request.Body = http.MaxBytesReader(p.w, p.request.Body, MaxBody)
	if err := p.request.ParseForm(); err != nil {
		return p.problem(http.StatusBadRequest, "The form is malformed.")
	}
	open, known := p.api.Tokens.TakeFlow(p.request.PostForm.Get("flow"))
	if !known {
		return p.problem(http.StatusForbidden, "This form was already sent, or is too old. Start again from the application.")
	}
	decision := p.request.PostForm.Get("decision")
	switch {
	case decision == "cancel":
		return p.leave(open.State, url.Values{"error": {"access_denied"}, "error_description": {"The resource owner or authorization server denied the request."}})
	case open.User == nil:
		return p.signIn(open)
	case decision == "authorize":
		p.record.UserID = open.User.ID
		return p.leave(open.State, url.Values{"code": {p.api.Tokens.NewCode(*open.User)}})
	case decision == "switch":
		p.signOut()
		return p.reopen(open)
	default:
		return p.showStep(http.StatusOK, open, "", "")
	}
}

// signIn stores the signed-in user and redirects to the page's URL, so that reloading the
// consent page sends no form. After a wrong password the form keeps its token, so that
// reloading sends the form again.
func (p *browserPage) signIn(open tokens.Flow) int {
	email := p.request.PostForm.Get("email")
	for _, user := range p.api.Store.Users() {
		if store.EmailKey(user.Email) == store.EmailKey(email) && user.Password == p.request.PostForm.Get("password") {
			p.remember(user)
			return p.reopen(open)
		}
	}
	return p.showStep(http.StatusUnprocessableEntity, open, email, "E-mail address or password is wrong.")
}

// showStep shows the form for the current step of the flow.
func (p *browserPage) showStep(status int, open tokens.Flow, email, message string) int {
	f := &pages.Frame{Title: "Sign in", Message: message, Leaves: true}
	response := authorizeView{
		App: p.api.App.Name, Redirect: p.api.App.RedirectURI,
		Flow: p.api.Tokens.OpenFlow(open), Email: email, Users: p.api.Store.Users(),
	}
	if open.User != nil {
		f.Title, response.User = "Authorize "+p.api.App.Name, open.User
		response.Clinic = p.api.Store.ClinicName(open.User.ClinicID)
		for _, name := range p.api.Tokens.ApplicationScopes() {
			info, _ := operations.FindScope(name)
			response.Scopes = append(response.Scopes, info)
		}
	}
	f.Send(p.w, status, "authorize", response)
	return status
}

func (p *browserPage) problem(status int, message string) int {
	p.record.Errors = []string{message}
	f := &pages.Frame{Title: http.StatusText(status), Message: message, Leaves: true}
	f.Send(p.w, status, "problem", nil)
	return status
}

// leave redirects the browser to the application.
func (p *browserPage) leave(state string, response url.Values) int {
	if state != "" {
		response.Set("state", state)
	}
	target, _ := url.Parse(p.api.App.RedirectURI) // validated on construction
	query := target.Query()
	maps.Copy(query, response)
	target.RawQuery = query.Encode()
	return pages.SeeOther(p.w, target.String())
}

// reopen redirects the browser to the URL of the page.
func (p *browserPage) reopen(open tokens.Flow) int {
	return pages.SeeOther(p.w, "?"+open.Query)
}

// sessionCookie returns the name of the session cookie. Browsers send cookies to every port of
// a host. The port in the name prevents that two platforms on one machine sign out each
// other's users.
func (p *browserPage) sessionCookie() string {
	if _, port, err := net.SplitHostPort(p.request.Host); err == nil {
		return "dispensary_session_" + port
	}
	return "dispensary_session"
}

func (p *browserPage) sessionToken() string {
	cookie, err := p.request.Cookie(p.sessionCookie())
	if err != nil {
		return ""
	}
	return cookie.Value
}

// signedIn returns the user of the browser's session, or nil.
func (p *browserPage) signedIn() *model.User {
	id := p.api.Tokens.SessionUser(p.sessionToken())
	if id == "" {
		return nil
	}
	for _, user := range p.api.Store.Users() {
		if user.ID == id {
			return &user
		}
	}
	return nil
}

// remember signs the browser in until it is closed. An earlier session ends.
func (p *browserPage) remember(user model.User) {
	p.api.Tokens.EndSession(p.sessionToken())
	p.setSession(&http.Cookie{Value: p.api.Tokens.OpenSession(user.ID)})
}

// signOut ends the browser's session.
func (p *browserPage) signOut() {
	p.api.Tokens.EndSession(p.sessionToken())
	p.setSession(&http.Cookie{MaxAge: -1})
}

func (p *browserPage) setSession(cookie *http.Cookie) {
	cookie.Name, cookie.Path = p.sessionCookie(), "/"
	cookie.HttpOnly, cookie.SameSite, cookie.Secure = true, http.SameSiteLaxMode, p.request.TLS != nil
	http.SetCookie(p.w, cookie)
}
