package dispensarytest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// visitAs opens a page with a browser's session, and shows a redirect.
func (b *browser) visitAs(session *http.Cookie, method, address string, fields url.Values) (answer, *http.Cookie) {
	b.t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(fields.Encode()))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if session != nil {
		req.AddCookie(session)
	}
	resp, err := b.plain().Do(req)
	require.NoError(b.t, err)
	if cookies := resp.Cookies(); len(cookies) == 1 {
		session = cookies[0]
	}
	return decoded(b.t, resp), session
}

// signedIn is the session of a browser that a user signed in with.
func (b *browser) signedIn(user model.User) *http.Cookie {
	b.t.Helper()
	address := b.authorizeURL(nil)
	page, _ := b.visitAs(nil, "GET", address, nil)
	done, session := b.visitAs(nil, "POST", address, url.Values{"flow": {flowOf(page)}, "email": {user.Email}, "password": {user.Password}})
	require.Equal(b.t, http.StatusSeeOther, done.status)
	require.NotNil(b.t, session)
	assert.Equal(b.t, "?"+address[strings.Index(address, "?")+1:], done.header.Get("Location"), "where the page was opened")
	return session
}

func TestTheConsentPageCanBeReloaded(t *testing.T) {
	t.Parallel()
	b := start(t)
	user := b.fake.Users()[1]
	session := b.signedIn(user)
	assert.True(t, session.HttpOnly)
	assert.Equal(t, http.SameSiteLaxMode, session.SameSite)
	assert.Zero(t, session.MaxAge, "until the browser is closed")
	var consent answer
	for range 3 {
		consent, _ = b.visitAs(session, "GET", b.authorizeURL(nil), nil)
		require.Equal(t, 200, consent.status)
		assert.Contains(t, consent.text, "asks to work with your account")
		assert.Contains(t, consent.text, user.Email)
	}
	sent := b.submit(url.Values{"flow": {flowOf(consent)}, "decision": {"authorize"}})
	back, err := url.Parse(sent.header.Get("Location"))
	require.NoError(t, err)
	assert.Equal(t, user.ID, b.exchange(back.Query().Get("code")).ok(200, "oauth", "resource_owner", "id"))
}

func TestTheSignInIsRemembered(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	session := b.signedIn(b.fake.Users()[0])
	other := b.authorizeURL(url.Values{"state": {"another"}})
	again, _ := b.visitAs(session, "GET", other, nil)
	assert.Contains(t, again.text, "asks to work with your account")

	switched, gone := b.visitAs(session, "POST", other, url.Values{"flow": {flowOf(again)}, "decision": {"switch"}})
	assert.Equal(t, http.StatusSeeOther, switched.status)
	assert.Negative(t, gone.MaxAge, "the browser forgets it")
	assert.Contains(t, switched.header.Get("Location"), "state=another")
	signIn, _ := b.visitAs(session, "GET", other, nil)
	assert.Contains(t, signIn.text, "Sign in to continue", "so does the platform")

	session = b.signedIn(b.fake.Users()[0])
	b.fake.Clock().Advance(tokens.SessionLifetime - time.Second)
	again, _ = b.visitAs(session, "GET", other, nil)
	assert.Contains(t, again.text, "asks to work with your account")
	b.fake.Clock().Advance(time.Second)
	signIn, _ = b.visitAs(session, "GET", other, nil)
	assert.Contains(t, signIn.text, "Sign in to continue")

	session = b.signedIn(b.fake.Users()[0])
	b.fake.Reset()
	signIn, _ = b.visitAs(session, "GET", other, nil)
	assert.Contains(t, signIn.text, "Sign in to continue")
}

// A browser in which another user has signed in signs in again as its own user.
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
