package dispensarytest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

const formType = "application/x-www-form-urlencoded"

// plain returns a client that does not follow redirects.
func (b *browser) plain() *http.Client {
	client := *b.fake.HTTPClient()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

func (b *browser) open(address string) response {
	b.t.Helper()
	page, _ := b.visitAs(nil, "GET", address, nil)
	return page
}

func (b *browser) submit(fields url.Values) response {
	b.t.Helper()
	page, _ := b.visitAs(nil, "POST", b.fake.Site().AuthURL+"/oauth/authorize", fields)
	return page
}

// signIn sends the sign-in form of an open page, and opens the consent page behind the
// redirect.
func (b *browser) signIn(page response, email, password string) response {
	b.t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(b.t, err)
	client := *b.fake.HTTPClient()
	client.Jar = jar
	resp, err := client.PostForm(b.fake.Site().AuthURL+"/oauth/authorize", url.Values{"flow": {flowOf(page)}, "email": {email}, "password": {password}})
	require.NoError(b.t, err)
	return decoded(b.t, resp)
}

func flowOf(a response) string {
	a.t.Helper()
	field := flowField.FindStringSubmatch(a.text)
	require.NotNil(a.t, field, "%s", a.text)
	return field[1]
}

func TestMissingStateStaysMissing(t *testing.T) {
	t.Parallel()
	b := start(t)
	back, err := b.fake.Approve(b.authorizeURL(url.Values{"state": nil}), model.User{})
	require.NoError(t, err)
	assert.False(t, back.Query().Has("state"))
}

func TestAuthorizePageNeedsExactApplication(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, change := range []url.Values{
		{"client_id": {"other"}}, {"client_id": nil}, {"redirect_uri": {"http://127.0.0.1/callback/"}}, {"redirect_uri": nil},
	} {
		got := b.open(b.authorizeURL(change))
		assert.Equal(t, http.StatusNotFound, got.status)
		assert.Contains(t, got.header.Get("Content-Type"), "text/html")
	}
	wrongType := b.open(b.authorizeURL(url.Values{"response_type": {"token"}}))
	assert.Equal(t, http.StatusSeeOther, wrongType.status)
	assert.Contains(t, wrongType.header.Get("Location"), "error=unsupported_response_type")
}

func TestAuthorizePageHasBothURLs(t *testing.T) {
	t.Parallel()
	b := start(t)
	address := b.authorizeURL(nil)
	assert.Equal(t, 200, b.open(address).status)
	assert.Equal(t, 200, b.open(strings.Replace(address, b.fake.Site().AuthURL, b.fake.Site().BaseURL, 1)).status)
	assert.Equal(t, 404, b.open(b.fake.Site().AuthURL+"/clinic").status, "the browser's URL does not serve the API")
}

func TestAuthorizePageShowsScopes(t *testing.T) {
	t.Parallel()
	b := start(t, WithScopes("patients:read"))
	signIn := b.open(b.authorizeURL(url.Values{"scope": {"clinic:write"}}))
	assert.Contains(t, signIn.text, `<html lang="en">`)
	assert.Contains(t, signIn.text, `<label for="email">`)
	assert.NotContains(t, signIn.text, "<script")
	policy := signIn.header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")

	user := b.fake.Users()[0]
	consent := b.signIn(signIn, strings.ToUpper(user.Email), user.Password)
	assert.Contains(t, consent.text, "See your patients")
	assert.NotContains(t, consent.text, "Work on behalf", "scopes in the request are ignored")
	assert.Contains(t, consent.text, "Maple Hollow")
}

func TestWrongPasswordShowsFormAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	signIn := b.open(b.authorizeURL(nil))
	var again response
	for range 3 { // reloading the page sends the form again
		again = b.submit(url.Values{"flow": {flowOf(signIn)}, "email": {`"><b>x`}, "password": {"guess"}})
		again.rejected(http.StatusUnprocessableEntity, "is wrong")
	}
	assert.NotContains(t, again.text, `"><b>x`)
	user := b.fake.Users()[1]
	consent := b.signIn(again, user.Email, user.Password)
	assert.Equal(t, 200, consent.status)
	assert.Contains(t, consent.text, user.Name)
}

func TestFormsCannotBeForged(t *testing.T) {
	t.Parallel()
	b := start(t)
	assert.Equal(t, http.StatusForbidden, b.submit(url.Values{"decision": {"authorize"}}).status)

	signIn := b.open(b.authorizeURL(nil))
	assert.Equal(t, 422, b.submit(url.Values{"flow": {flowOf(signIn)}, "decision": {"authorize"}}).status, "no user is signed in")

	user := b.fake.Users()[0]
	signIn = b.open(b.authorizeURL(nil))
	consent := b.signIn(signIn, user.Email, user.Password)
	once := url.Values{"flow": {flowOf(consent)}, "decision": {"authorize"}}
	assert.Equal(t, http.StatusSeeOther, b.submit(once).status)
	assert.Equal(t, http.StatusForbidden, b.submit(once).status, "a form works once")

	forged := b.fetch("POST", b.fake.Site().AuthURL+"/oauth/authorize", "flow=x", "Content-Type", formType, "Sec-Fetch-Site", "cross-site")
	forged.rejected(http.StatusForbidden, "another site")
}

// visitAs opens a page with a browser's session and does not follow redirects.
func (b *browser) visitAs(session *http.Cookie, method, address string, fields url.Values) (response, *http.Cookie) {
	b.t.Helper()
	cookie := ""
	if session != nil {
		cookie = session.Name + "=" + session.Value
	}
	page := b.fetch(method, address, fields.Encode(), "Content-Type", formType, "Cookie", cookie)
	if cookies := (&http.Response{Header: page.header}).Cookies(); len(cookies) == 1 {
		session = cookies[0]
	}
	return page, session
}

// signedIn returns the session cookie of a signed-in user.
func (b *browser) signedIn(user model.User) *http.Cookie {
	b.t.Helper()
	address := b.authorizeURL(nil)
	page, _ := b.visitAs(nil, "GET", address, nil)
	done, session := b.visitAs(nil, "POST", address, url.Values{"flow": {flowOf(page)}, "email": {user.Email}, "password": {user.Password}})
	require.Equal(b.t, http.StatusSeeOther, done.status)
	require.NotNil(b.t, session)
	assert.Equal(b.t, "?"+address[strings.Index(address, "?")+1:], done.header.Get("Location"), "redirect to the URL of the page")
	return session
}

func TestBrowserStaysSignedIn(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	session := b.signedIn(b.fake.Users()[0])
	assert.True(t, session.HttpOnly)
	assert.Equal(t, http.SameSiteLaxMode, session.SameSite)
	assert.Zero(t, session.MaxAge, "the session ends with the browser")
	other := b.authorizeURL(url.Values{"state": {"another"}})
	again, _ := b.visitAs(session, "GET", other, nil)
	assert.Contains(t, again.text, "asks to work with your account")

	switched, gone := b.visitAs(session, "POST", other, url.Values{"flow": {flowOf(again)}, "decision": {"switch"}})
	assert.Equal(t, http.StatusSeeOther, switched.status)
	assert.Negative(t, gone.MaxAge, "the browser deletes the cookie")
	assert.Contains(t, switched.header.Get("Location"), "state=another")
	signIn, _ := b.visitAs(session, "GET", other, nil)
	assert.Contains(t, signIn.text, "Sign in to continue", "the platform ends the session")

	session = b.signedIn(b.fake.Users()[0])
	b.fake.Clock.Advance(tokens.SessionLifetime - time.Second)
	again, _ = b.visitAs(session, "GET", other, nil)
	assert.Contains(t, again.text, "asks to work with your account")
	b.fake.Clock.Advance(time.Second)
	signIn, _ = b.visitAs(session, "GET", other, nil)
	assert.Contains(t, signIn.text, "Sign in to continue")

	session = b.signedIn(b.fake.Users()[0])
	b.fake.Reset()
	signIn, _ = b.visitAs(session, "GET", other, nil)
	assert.Contains(t, signIn.text, "Sign in to continue")
}

// A browser signed in as another user signs in again as its own user.
func TestBrowserSwitchesUsers(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	one := app.fake.Browser(app.fake.Users()[0])
	for _, user := range []model.User{app.fake.Users()[0], app.fake.Users()[0], app.fake.Users()[1]} {
		one.user = user
		resp, err := one.Authorize(t.Context(), ehr+"/connect")
		assert.Empty(t, bodyOf(t, resp, err))
		code := app.back[len(app.back)-1].Get("code")
		assert.Equal(t, user.ID, app.exchange(code).ok(200, "oauth", "resource_owner", "id"))
	}
}

// application is an integrator's web server. Its /connect sends browsers to the platform and
// sets a cookie. Its /callback receives them back.
type application struct {
	*browser
	mu     sync.Mutex
	change url.Values // of the authorize URL
	back   []url.Values
	cookie []string
}

func newApplication(t *testing.T, change url.Values) *application {
	app := &application{browser: start(t, WithInMemory(), WithRedirectURI(ehr+"/callback")), change: change}
	require.NoError(t, app.fake.Host(ehr, app))
	return app
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/connect":
		http.SetCookie(w, &http.Cookie{Name: "who", Value: "practitioner-7", Path: "/"})
		http.Redirect(w, r, a.authorizeURL(a.change), http.StatusSeeOther)
	case "/callback":
		a.mu.Lock()
		defer a.mu.Unlock()
		a.back = append(a.back, r.URL.Query())
		if who, err := r.Cookie("who"); err == nil {
			a.cookie = append(a.cookie, who.Value)
		}
		w.WriteHeader(http.StatusAccepted)
	case "/lost":
		http.Redirect(w, r, ehr+"/somewhere", http.StatusSeeOther)
	case "/loop":
		http.Redirect(w, r, ehr+"/loop", http.StatusSeeOther)
	default:
		_, _ = fmt.Fprint(w, "a page without a form")
	}
}

func TestBrowserCompletesWholeFlow(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	user := app.fake.Users()[1]
	user.Password = "forgotten" // the browser uses the platform's password
	resp, err := app.fake.Browser(user).Authorize(t.Context(), ehr+"/connect")
	assert.Empty(t, bodyOf(t, resp, err))
	assert.Equal(t, http.StatusAccepted, resp.StatusCode, "the application's own response")
	require.Len(t, app.back, 1)
	assert.Equal(t, "s t&te", app.back[0].Get("state"))
	assert.Equal(t, []string{"practitioner-7"}, app.cookie, "the browser keeps cookies")
	assert.Equal(t, user.ID, app.exchange(app.back[0].Get("code")).ok(200, "oauth", "resource_owner", "id"))
	assert.Panics(t, func() { app.fake.Browser(model.User{Email: "nobody@example.org"}) })
}

func TestBrowserCancelsConsent(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	resp, err := app.fake.Browser(model.User{}).Cancel(t.Context(), ehr+"/connect")
	assert.Empty(t, bodyOf(t, resp, err))
	require.Len(t, app.back, 1)
	assert.Equal(t, "access_denied", app.back[0].Get("error"))
	assert.Equal(t, "s t&te", app.back[0].Get("state"))
	assert.False(t, app.back[0].Has("code"))
}

// The application stores its user in a session.
func TestBrowserKeepsSessionOfApplication(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	require.NoError(t, app.fake.Host(ehr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := r.Cookie("session")
		switch {
		case r.URL.Path == "/sign-in":
			http.SetCookie(w, &http.Cookie{Name: "session", Value: r.FormValue("user"), Path: "/", Secure: true, HttpOnly: true})
		case err != nil || session.Value != "osei":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			app.ServeHTTP(w, r)
		}
	})))
	for name, signIn := range map[string]func(*Browser){
		"cookie": func(b *Browser) {
			require.NoError(t, b.SetCookie(ehr, &http.Cookie{Name: "session", Value: "osei", Path: "/", Secure: true}))
		},
		"form": func(b *Browser) {
			resp, err := b.Client.PostForm(ehr+"/sign-in", url.Values{"user": {"osei"}})
			bodyOf(t, resp, err)
		},
	} {
		browser := app.fake.Browser(model.User{})
		_, err := browser.Authorize(t.Context(), ehr+"/connect")
		require.ErrorContains(t, err, "status 401", name)
		signIn(browser)
		resp, err := browser.Authorize(t.Context(), ehr+"/connect")
		assert.Empty(t, bodyOf(t, resp, err))
		assert.Equal(t, http.StatusAccepted, resp.StatusCode, name)
	}
	assert.Len(t, app.back, 2)
}

func TestSetCookieRejectsUnsentCookies(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	for name, c := range map[string]struct {
		address string
		cookie  http.Cookie
		says    string
	}{
		"relative address": {"/connect", http.Cookie{Name: "session", Value: "x"}, "not an absolute URL"},
		"no name":          {ehr, http.Cookie{Value: "x"}, "invalid Cookie.Name"},
		"secure over HTTP": {"http://ehr.example.com", http.Cookie{Name: "session", Value: "x", Secure: true}, "Secure"},
	} {
		err := fake.Browser(model.User{}).SetCookie(c.address, &c.cookie)
		require.ErrorContains(t, err, c.says, name)
		require.ErrorContains(t, err, "dispensarytest: SetCookie: ", name)
	}
}

func TestBrowserErrorNamesFailedStep(t *testing.T) {
	t.Parallel()
	app := newApplication(t, url.Values{"redirect_uri": {ehr + "/callback/"}})
	browser := app.fake.Browser(model.User{})
	for path, says := range map[string]string{
		"/connect": "status 404", // it redirects with an unregistered URL
		"/lost":    "did not reach the authorization page",
		"/loop":    "stopped after 10 redirects",
	} {
		_, err := browser.Authorize(t.Context(), ehr+path)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "dispensarytest: ")
		_, err = app.fake.Approve(ehr+path, model.User{})
		require.ErrorContains(t, err, says)
	}
	_, err := browser.Cancel(t.Context(), "https://elsewhere.example.com")
	require.ErrorContains(t, err, "no such host")
	_, err = browser.Cancel(t.Context(), ":")
	require.ErrorContains(t, err, "cannot open this address")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = browser.Authorize(ctx, ehr+"/connect")
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, app.back)
}

// Approve does not wait for an application that never returns from its callback.
func TestApproveDoesNotOpenCallback(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	back, err := app.fake.Approve(ehr+"/connect", model.User{})
	require.NoError(t, err)
	assert.Equal(t, "/callback", back.Path)
	assert.Empty(t, app.back)
	app.exchange(back.Query().Get("code")).ok(200)
}
