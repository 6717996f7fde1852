package browser

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	b.rejected(422)
	b.focused("Password")
}

// healthRecord is examples/ehr in its own process, with its fake platforms.
type healthRecord struct {
	url      string     // with a final slash
	accounts [][]string // email address and password of each practitioner
}

// startHealthRecord builds and starts the program. It stops the program after the test.
func startHealthRecord(t *testing.T) *healthRecord {
	t.Helper()
	if chromium == nil {
		t.Skip("Chromium is not installed")
	}
	program := filepath.Join(t.TempDir(), "ehr")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/dispensary-go/dispensary/examples/ehr")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	command := exec.Command(program, "-addr", "127.0.0.1:0")
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(os.Interrupt))
		assert.NoError(t, command.Wait(), "the program stops without an error")
	})
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan())
	r := &healthRecord{url: strings.Fields(lines.Text())[1] + "/"}
	require.True(t, lines.Scan())
	for range 3 {
		require.True(t, lines.Scan())
		words := strings.Fields(lines.Text())
		r.accounts = append(r.accounts, words[len(words)-2:])
	}
	return r
}

// connect signs in to the health record and connects an account of the platform.
func (r *healthRecord) connect(b *tab, user string, account []string) {
	b.t.Helper()
	b.visit(r.url + "sign-in")
	b.press(user)
	b.press("Connect the dispensary")
	b.fill("email", account[0])
	b.fill("password", account[1])
	b.press("Sign in")
	b.press("Authorize")
	b.sees("Plans and orders")
}

// plan fills in and sends the form of a plan.
func (r *healthRecord) plan(b *tab) {
	b.t.Helper()
	b.fill("units1", "2")
	b.choose("info0", "with food")
	b.choose("info1", "nothing")
	run(b, chromedp.Click(chromedp.CSS(`[name="state"]`), chromedp.NodeVisible))
	b.press("Create the plan")
	b.sees("The plan for Jane Doe was created.", "Plan active")
}

// choose selects an option of a list by its name.
func (b *tab) choose(field, choice string) {
	b.t.Helper()
	run(b, chromedp.Focus(chromedp.CSS(fmt.Sprintf(`select[name=%q]`, field)), chromedp.NodeVisible))
	b.keys(choice)
}

// auditAndGoOn audits a page and restores the desktop window.
func (b *tab) auditAndGoOn(page string) {
	b.t.Helper()
	b.audit(page)
	b.look("light", 1000)
}

// A practitioner connects, searches for a product, creates a plan and starts its payment in the
// clinic, with scripts and without scripts. Every page passes the audit.
func TestPractitionerWorksInHealthRecord(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"with scripts": false, "without scripts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startHealthRecord(t) // stops after the tab has closed
			b := open(t)
			b.disableScripts(without)
			b.visit(r.url)
			b.auditAndGoOn("signing in")
			b.press("Dr. Amara Osei")
			b.auditAndGoOn("connecting")
			b.opens(r.url+"no/such/page", http.StatusNotFound)
			b.rejected(404)
			b.auditAndGoOn("no page")
			b.opens(r.url+"dispensary/callback?state=old", http.StatusBadRequest)
			b.rejected(400)
			b.sees("Example EHR", "This link does not work")
			b.auditAndGoOn("a link that does not work")
			r.connect(b, "Dr. Amara Osei", r.accounts[0])
			b.sees("Jane Doe")
			b.auditAndGoOn("patients")

			b.press("Catalog")
			b.auditAndGoOn("catalog")
			for _, query := range [][2]string{
				{"glyc magnezium", "1 found of the brands that your clinic may order"},
				{"xyzzy", "0 found of the brands"},
				{"qurecetin", "Quercetin & Bromelain"},
			} {
				b.fill("q", query[0])
				if without {
					b.press("Search")
				}
				b.sees(query[1])
			}
			b.auditAndGoOn("products")
			b.leads(chromedp.Click(chromedp.CSS(".products a"), chromedp.NodeVisible))
			b.sees("Quercetin & Bromelain", ": available.")
			b.auditAndGoOn("product")
			b.press("Back to the products for “qurecetin”")
			b.sees("1 found")

			b.press("Patients")
			b.press("Create a plan for Jane Doe")
			b.sees("Better Sleep", "with food")
			b.auditAndGoOn("plan")
			b.fill("units1", "many")
			b.press("Create the plan")
			b.rejected(422)
			b.sees("Please check your entries", ": Units to purchase must be a whole number above 0", ": Additional info has to be chosen")
			active := func() string { return eval[string](b, `document.activeElement.id`) }
			b.wait("focus on the summary", func() bool { return active() == "wrong" })
			b.keys(kb.Tab + kb.Enter)
			b.wait("focus on the first field", func() bool { return active() == "info0" })
			b.auditAndGoOn("a plan that was rejected")
			r.plan(b)
			b.press("Pay in the clinic")
			b.press("Place the order")
			b.sees("was placed.")
			b.wait("order", func() bool { b.visit(r.url); return strings.Contains(b.text(), "Order R") })
			b.auditAndGoOn("patients with a plan")
			if !without { // the README shows this page
				b.picture("ehr", 1000, 500)
				b.look("light", 1000)
			}

			b.press("Sign out")
			b.visit(r.url)
			assert.NotContains(t, b.text(), "Patients", "signed out")
			b.press("Jo Park")
			b.sees("has no current failure in receiving webhooks", "Dead letters")
			b.auditAndGoOn("operations")
			b.press("Accounts")
			b.sees("Connected")
		})
	}
}
