package browser

import (
	_ "embed"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

//go:embed audit.js
var auditScript string

// Widths of a small phone, a usual phone and A4 paper, in CSS pixels.
const (
	narrow = 320
	phone  = 390
	paper  = 794
)

// look is the color scheme and width for a check of a page. The scheme "print" is paper, and
// "forced" is a theme of the system with few colors.
type look struct {
	scheme string
	width  int64
}

// looks are the looks for every page.
var looks = []look{{"light", 1280}, {"dark", 1280}, {"light", phone}, {"dark", phone}, {"light", narrow}, {"print", paper}, {"forced", 1280}, {"forced", phone}}

// audit checks the open page in all looks, with all details open.
func (b *tab) audit(page string) {
	b.t.Helper()
	b.auditIn(looks, page)
}

// auditIn checks the open page in the given looks. It does not reload the page.
func (b *tab) auditIn(looks []look, page string) {
	b.t.Helper()
	eval[bool](b, `document.querySelectorAll("details").forEach((d) => d.open = true), true`)
	for _, look := range looks { // dark pages differ from light ones only in colors
		b.look(look.scheme, look.width)
		assert.Empty(b.t, eval[[]string](b, auditScript), "%s in %s colors, %d px wide", page, look.scheme, look.width)
		if look.width != narrow {
			assert.Empty(b.t, b.axe(look.scheme == "dark"), "axe: %s in %s colors, %d px wide", page, look.scheme, look.width)
		}
	}
	b.look("light", 1280)
}

// look sets the preferred color scheme and the width of the window.
func (b *tab) look(scheme string, width int64) {
	b.t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	switch scheme {
	case "print":
		media = emulation.SetEmulatedMediaParams{Media: scheme}
	case "forced":
		media.Features = []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}
	}
	call(b, emulation.SetEmulatedMedia, media)
	b.window(width, 900)
}

func (b *tab) window(width, height int64) {
	b.t.Helper()
	run(b, chromedp.EmulateViewport(width, height))
}

// fill creates data for every page of the console.
func (s *fixture) fill() {
	s.t.Helper()
	s.status.Store(http.StatusInternalServerError)
	p := s.fake
	client, patient := s.client(), p.Patients.All()[0].ID
	require.NoError(s.t, s.fake.Tokens.Expire(s.fake.Tokens.Issue(s.fake.Users()[1]).AccessToken))
	_, _, err := p.Plans.Create(patient, model.PlanCreate{Draft: true})
	require.NoError(s.t, err)
	_, _, err = p.Orders.Place(patient, model.OrderCreate{})
	require.NoError(s.t, err)
	s.attempted(1)
	_, err = client.Clinic.Patients.Get(s.t.Context(), patient)
	require.NoError(s.t, err)
	response, err := http.Get(s.fake.Site().BaseURL + "/clinic/nothing?here=too")
	require.NoError(s.t, err)
	require.NoError(s.t, response.Body.Close())
	s.fake.Fault(model.Fault{Effect: model.EffectDropAfterCommit, Operation: "patients.create", Times: 1})
}

// auditEmpty audits pages below base without data.
func (b *tab) auditEmpty(base string, pages []string) {
	b.t.Helper()
	for _, page := range pages {
		b.visit(base + page)
		b.audit("empty " + page)
	}
}

// auditSite audits pages below base, with and without scripts, and the page of an unknown URL.
// All links of the pages must work.
func (b *tab) auditSite(base string, pages []string) {
	b.t.Helper()
	links := map[string]bool{}
	for _, page := range pages {
		b.visit(base + page)
		b.audit(page)
		for _, link := range eval[[]string](b, `[...document.links].map((link) => link.href.split("#")[0])`) {
			links[link] = true
		}
		b.disableScripts(true)
		b.visit(base + page)
		b.auditIn([]look{{"light", phone}}, "without scripts, "+page)
		b.disableScripts(false)
	}
	for link := range links {
		response, err := http.Get(link)
		require.NoError(b.t, err)
		require.NoError(b.t, response.Body.Close())
		assert.Equal(b.t, http.StatusOK, response.StatusCode, link)
	}
	b.opens(base+"no/such/page", http.StatusNotFound)
	b.rejected(404)
	b.audit("no page")
}

// Every page of the console passes the audit, and all its links work.
func TestConsolePagesPassAudit(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	s, b := newFixture(t), open(t)
	b.auditEmpty(s.console, []string{"tokens", "timeline", "events", "deliveries", "requests", "clock", "faults"})
	s.fill()
	b.auditSite(s.console, []string{
		"", "tokens", "world", "world?kind=plans", "world?kind=orders", "world?kind=practitioners", "world?kind=products", "timeline",
		"events", "events?select=" + s.fake.Events()[0].ID, "deliveries", "deliveries?select=" + s.fake.Webhooks.Deliveries()[0].ID,
		"requests", "requests?select=request-1", "requests?select=request-2", "clock", "faults", "behaviors",
	})
	b.visit(s.console + "deliveries")
	b.fill("body.url", "mailto:a@example.com")
	b.press("Register another endpoint")
	b.rejected(422)
	b.audit("a rejection")
	b.visit(s.console + "requests")
	b.press("Find unexpected requests")
	b.audit("what was done")
}

// Every page of the fake platform passes the audit.
func TestPlatformPagesPassAudit(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	s, b := newFixture(t), open(t)
	origin := strings.TrimSuffix(s.fake.Site().BaseURL, "/api")
	p := s.fake
	plan := p.Plans.All()[0]
	_, err := s.client().TreatmentPlans.InOfficeCheckout(t.Context(), plan.ID)
	require.NoError(t, err)
	cancelled, _, err := p.Plans.Create(p.Patients.All()[1].ID, model.PlanCreate{PersonalMessage: "Hello"})
	require.NoError(t, err)
	_, _, err = p.Plans.Cancel(cancelled.ID)
	require.NoError(t, err)

	b.visit(s.authorize())
	b.audit("signing in")
	b.fill("email", "nobody@example.org")
	b.fill("password", "wrong")
	b.press("Sign in")
	b.rejected(422)
	b.audit("signing in again")
	b.signIn(s)
	b.audit("consent")
	b.opens(origin+"/auth/oauth/authorize", http.StatusNotFound)
	b.rejected(404)
	b.audit("a wrong redirect")
	b.opens(origin+"/no/such/page", http.StatusNotFound)
	b.rejected(404)
	b.audit("no page of the platform")
	for _, page := range []string{"/plans/new", "/plans/" + cancelled.ID + "/edit", "/plans/" + plan.ID + "/invitation", "/plans/" + plan.ID + "/edit"} {
		b.visit(origin + page)
		b.audit(page)
	}
	b.fill("query", "vitamin")
	b.press("Find")
	b.audit("finding a product")
	b.visit(origin + "/checkouts/" + plan.ID)
	b.audit("checkout")
	b.press("Place the order")
	b.sees("was placed.")
	b.audit("an order")
}
