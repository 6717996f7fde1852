package dispensarytest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// application is an integrator's web server: its /connect sends browsers to the
// platform and remembers them with a cookie, its /callback takes them back.
type application struct {
	*browser
	mu     sync.Mutex
	change url.Values // of the authorize address
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

func TestBrowserWalksTheWholeFlow(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	user := app.fake.Users()[1]
	resp, err := app.fake.Browser(user).Authorize(t.Context(), ehr+"/connect")
	assert.Empty(t, bodyOf(t, resp, err))
	assert.Equal(t, http.StatusAccepted, resp.StatusCode, "the application's own answer")
	require.Len(t, app.back, 1)
	assert.Equal(t, "s t&te", app.back[0].Get("state"))
	assert.Equal(t, []string{"practitioner-7"}, app.cookie, "the browser keeps cookies")
	assert.Equal(t, user.ID, app.exchange(app.back[0].Get("code")).ok(200, "oauth", "resource_owner", "id"))
}

func TestBrowserCancels(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	resp, err := app.fake.Browser(model.User{}).Cancel(t.Context(), ehr+"/connect")
	assert.Empty(t, bodyOf(t, resp, err))
	require.Len(t, app.back, 1)
	assert.Equal(t, "access_denied", app.back[0].Get("error"))
	assert.Equal(t, "s t&te", app.back[0].Get("state"))
	assert.False(t, app.back[0].Has("code"))
}

func TestBrowserKnowsThePassword(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	user := app.fake.Users()[0]
	user.Password = "forgotten"
	resp, err := app.fake.Browser(user).Authorize(t.Context(), ehr+"/connect")
	assert.Empty(t, bodyOf(t, resp, err))
	assert.True(t, app.back[0].Has("code"))
	assert.Panics(t, func() { app.fake.Browser(model.User{Email: "nobody@example.org"}) })
}

func TestBrowserErrorSaysWhereAuthorizationFailed(t *testing.T) {
	t.Parallel()
	app := newApplication(t, url.Values{"redirect_uri": {ehr + "/callback/"}})
	browser := app.fake.Browser(model.User{})
	for path, says := range map[string]string{
		"/connect": "status 404", // it redirects with an address that is not the registered one
		"/lost":    "did not come to the authorization page",
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

// An application that never comes back from its callback is not waited for.
func TestApproveDoesNotOpenTheCallback(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	back, err := app.fake.Approve(ehr+"/connect", model.User{})
	require.NoError(t, err)
	assert.Equal(t, "/callback", back.Path)
	assert.Empty(t, app.back)
	app.exchange(back.Query().Get("code")).ok(200)
}

func TestBrowsersDoNotMixUpTheirUsers(t *testing.T) {
	t.Parallel()
	app := newApplication(t, nil)
	var group sync.WaitGroup
	for _, user := range app.fake.Users() {
		group.Go(func() {
			back, err := app.fake.Approve(ehr+"/connect", user)
			if assert.NoError(t, err) {
				app.exchange(back.Query().Get("code")).ok(200, "oauth")
			}
		})
	}
	group.Wait()
	owners := make(map[string]bool)
	for _, r := range app.fake.Journal().Of("oauth.token") {
		owners[r.UserID] = true
	}
	assert.Len(t, owners, len(app.fake.Users()))
}
