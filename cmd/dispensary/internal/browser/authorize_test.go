package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
)

func TestUserAuthorizes(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		b.visit(s.authorize())
		user := s.fake.Users()[0]
		b.fill("email", user.Email)
		b.fill("password", "wrong")
		b.press("Sign in")
		b.sees("E-mail address or password is wrong.")
		b.refused(422)
		b.fill("password", user.Password)
		b.press("Sign in")
		b.sees("Example EHR asks to work with your account", user.Name, "See your patients")
		b.press("Authorize")
		b.sees("Welcome back")
		back := s.cameBack()
		assert.Equal(b.t, "s-1", back.Get("state"))
		assert.NotEmpty(b.t, back.Get("code"))
	})
}

func TestUserCancels(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		b.visit(s.authorize())
		b.press("Cancel") // works before signing in
		b.sees("Welcome back")
		assert.Equal(b.t, "access_denied", s.cameBack().Get("error"))
		b.signIn(s)
		b.press("Cancel")
		b.sees("Welcome back")
		assert.Equal(b.t, "access_denied", s.cameBack().Get("error"))
		assert.Empty(b.t, s.fake.Tokens.Credentials())
	})
}

func (b *tab) signIn(s *fixture) {
	b.t.Helper()
	user := s.fake.Users()[0]
	b.visit(s.authorize())
	b.fill("email", user.Email)
	b.fill("password", user.Password)
	b.press("Sign in")
	b.sees("asks to work with your account")
}

// A reload of the consent page keeps the sign-in and asks no question.
func TestReloadKeepsConsentPage(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		b.signIn(s)
		b.leads(chromedp.Reload())
		b.sees("asks to work with your account", s.fake.Users()[0].Name)
		b.press("Sign in as somebody else")
		b.sees("Sign in to continue")
		other := s.fake.Users()[1]
		b.fill("email", other.Email)
		b.fill("password", other.Password)
		b.press("Sign in")
		b.sees("asks to work with your account", other.Name)
		b.press("Authorize")
		b.sees("Welcome back")
		assert.NotEmpty(b.t, s.cameBack().Get("code"))
	})
}

func TestUnknownRedirectShowsError(t *testing.T) {
	t.Parallel()
	twice(t, func(s *fixture, b *tab) {
		b.opens(strings.Replace(s.authorize(), "callback", "elsewhere", 1), 404)
		b.sees("No application has this client_id and redirect_uri.")
		b.refused(404)
		assert.Empty(b.t, s.back, "the browser is not redirected to an unregistered URL")
	})
}

// The keyboard is enough: Tab, Enter and Space reach every control, and the focus is always
// visible.
func TestConsentByKeyboard(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	b.signInByKeys(s)
	b.keys(kb.Tab)
	b.focused("Authorize")
	b.leads(chromedp.KeyEvent(kb.Enter))
	assert.NotEmpty(t, s.cameBack().Get("code"))

	b.visit(s.authorize()) // the user is still signed in
	b.sees("asks to work with your account")
	b.keys(kb.Tab + kb.Tab)
	b.focused("Cancel")
	b.leads(chromedp.KeyEvent(" "))
	assert.Equal(t, "access_denied", s.cameBack().Get("error"))

	b.visit(s.authorize())
	b.keys(kb.Tab + kb.Tab + kb.Tab)
	b.focused("Sign in as somebody else")
	b.leads(chromedp.KeyEvent(kb.Enter))
	b.signInByKeys(s)
	b.keys(kb.Tab + kb.Tab + kb.Tab + kb.Tab)
	b.focused("Where you go next")
	b.keys(" ")
	b.sees(s.fake.Application().RedirectURI)
}

func (b *tab) signInByKeys(s *fixture) {
	b.t.Helper()
	user := s.fake.Users()[0]
	b.visit(s.authorize())
	b.focused("E-mail address")
	b.keys(user.Email + kb.Tab)
	b.focused("Password")
	b.leads(chromedp.KeyEvent(user.Password + kb.Enter))
	b.sees("asks to work with your account")
}

// focused requires that a control has a visible focus.
func (b *tab) focused(name string) {
	b.t.Helper()
	b.wait("visible focus on "+name, func() bool {
		return name+", solid 3px" == eval[string](b, `(() => {
			const at = document.activeElement, style = getComputedStyle(at);
			return (at.labels?.[0] ?? at).innerText.trim() + ", " + style.outlineStyle + " " + style.outlineWidth;
		})()`)
	})
}

// After a wrong password, the focus is on the password: the email address is probably correct.
func TestWrongPasswordMovesFocus(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t) // browsers move the focus only if scripts are enabled
	b.visit(s.authorize())
	b.focused("E-mail address")
	b.fill("email", s.fake.Users()[0].Email)
	b.fill("password", "wrong")
	b.press("Sign in")
	b.refused(422)
	b.focused("Password")
}
