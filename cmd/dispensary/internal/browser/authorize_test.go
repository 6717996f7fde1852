package browser

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
)

func (b *tab) signIn(s *fixture) {
	b.t.Helper()
	user := s.fake.Users()[0]
	b.visit(s.authorize())
	b.fill("email", user.Email)
	b.fill("password", user.Password)
	b.press("Sign in")
	b.sees("asks to work with your account")
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
