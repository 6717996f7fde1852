package browser

import (
	_ "embed"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

//go:embed audit.js
var auditScript string

// narrow is the width of a small telephone, in CSS pixels.
const narrow = 320

// phone is the width of a usual telephone, in CSS pixels.
const phone = 390

// look is the colors and the width in which a page is checked.
type look struct {
	scheme string
	width  int64
}

// looks are those of every page that people work with: both colors, the two widths that are
// farthest apart, and a telephone.
var looks = []look{{"light", 1280}, {"dark", 1280}, {"light", narrow}, {"dark", phone}}

// audit checks contrast, names and layout of the open page, in all looks, with everything
// unfolded.
func (b *tab) audit(page string) {
	b.t.Helper()
	b.auditIn(looks, page)
}

// auditIn does in these looks. The page stays loaded.
func (b *tab) auditIn(looks []look, page string) {
	b.t.Helper()
	eval[bool](b, `document.querySelectorAll("details").forEach((d) => d.open = true), true`)
	for _, look := range looks {
		b.look(look.scheme, look.width)
		assert.Empty(b.t, eval[[]string](b, auditScript), "%s in %s colours, %d px wide", page, look.scheme, look.width)
	}
	assert.Empty(b.t, b.nameless(), "%s: names", page)
}

// nameless are the roles of what needs no name, in the tree that the browser gives to
// a screen reader.
func (b *tab) nameless() (roles []string) {
	b.t.Helper()
	for _, node := range call(b, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		role := strings.Trim(string(node.Role.Value), `"`)
		if !node.Ignored && toName[role] && strings.Trim(string(node.Name.Value), `" `) == "" {
			roles = append(roles, role)
		}
	}
	return roles
}

// toName are the roles of what must have a name.
var toName = map[string]bool{
	"button": true, "checkbox": true, "combobox": true, "DisclosureTriangle": true, "heading": true, "image": true, "link": true,
	"navigation": true, "region": true, "searchbox": true, "spinbutton": true, "textbox": true,
}

// look sets the colours that a person prefers, and the width of the window.
func (b *tab) look(scheme string, width int64) {
	b.t.Helper()
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.window(width, 900)
}

func (b *tab) window(width, height int64) {
	b.t.Helper()
	run(b, chromedp.EmulateViewport(width, height))
}

// The audit finds the mistakes that it is written for.
func TestTheAudit(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.visit("data:text/html," + url.PathEscape(`<!doctype html><title>Page</title><link rel="icon" href="data:,">
		<style>body { background: white } .faint { color: #777 } .dark { background: color-mix(in srgb, #000 50%, #fff) }</style>
		<h1>One</h1><h3 id="x">Three</h3><p class="faint">4.48 to 1</p><p class="faint" style="font-size: 24px">Large</p>
		<p class="dark">Black on grey</p><p class="dark faint">Grey on grey</p><p hidden class="faint">Hidden</p>
		<label>Name <input style="border: 1px solid #999"></label><input aria-label="Good" style="border: 1px solid #666">
		<input name="x" style="border: 1px solid #666; color: #888"><button style="border: 1px solid #666"></button><img src="data:,">
		<a id="x" href="#away">Away</a><p style="width: 2000px">Wide</p>`))
	assert.Equal(t, []string{
		"contrast 4.48 of <p> 4.48 to 1", "contrast 1.13 of <p> Grey on grey", "contrast 2.85 of the edge of <input>", "contrast 3.54 of what is typed into <input> x",
		"it is wider than the window, with <p> Wide", "it has no language", "it has no title", "heading <h3> Three skips a level",
		"two elements have the id x", "<a> Away leads nowhere",
	}, eval[[]string](b, auditScript))
	assert.Equal(t, []string{"textbox", "button", "image"}, b.nameless())
}

// The audit finds text that is hidden, cut off, covered or drawn over other text.
func TestAuditFindsUnreadableText(t *testing.T) {
	t.Parallel()
	b := open(t)
	b.window(1280, 300)
	b.visit("data:text/html;charset=utf-8," + url.PathEscape(`<!doctype html><html lang="en"><title>Page · Test</title><link rel="icon" href="data:,">
		<style>body { background: white } .over { position: absolute; background: white } .cut { width: 4ch; overflow: hidden; white-space: nowrap }
		.mark { text-overflow: ellipsis } .spoken { position: absolute; clip-path: inset(50%) }
		td { position: relative } td::before { content: attr(data-label); position: absolute; left: 0; width: 3ch }</style><main><h1>One</h1>
		<p>Before <b>bold</b> <i>and slanted</i></p><p style="margin-top: 2000px">Far below</p>
		<pre style="height: 3em; overflow: auto">1
2
3
4
5
6
7</pre>
		<div class="spoken">Spoken <p>too</p></div><div hidden><p>Later</p></div>
		<p class="cut mark">A long text <small>with an end</small></p>
		<div style="opacity: 0"><p>Clear</p></div><dl style="display: none"><dt>Key</dt></dl>
		<p class="cut">Halved</p><div class="cut"><span style="margin-left: 9ch">Lost</span></div>
		<div style="position: relative"><p>Below</p><div class="over" style="inset: 0"></div></div>
		<div style="position: relative"><p>Under</p><p style="position: absolute; top: 0; margin: 0">Above</p></div>
		<table><tr><td data-label="Long label">Cell</td></tr></table></main>`))
	assert.Equal(t, []string{
		"<p> Clear is hidden", "<dl> Key is hidden", "Under is drawn over Above", "the label of <td> Cell is taller than the cell",
		"Halved is cut off", "Lost is cut off", "Below is covered by <div>", "Under is covered by <p> Above",
	}, eval[[]string](b, auditScript))
}

// fill gives every page of the console something to show.
func (s *fixture) fill() {
	s.t.Helper()
	s.status.Store(http.StatusInternalServerError)
	p := s.fake
	client, patient := s.client(), p.Patients.All()[0].ID
	require.NoError(s.t, s.fake.Tokens.Expire(s.fake.Tokens.Issue(s.fake.Users()[1]).AccessToken))
	_, _, err := p.Plans.Create(patient, model.NewPlan{Draft: true})
	require.NoError(s.t, err)
	_, _, err = p.Orders.Place(patient, model.NewOrder{})
	require.NoError(s.t, err)
	s.attempted(1)
	_, err = client.Clinic.Patients.Get(s.t.Context(), patient)
	require.NoError(s.t, err)
	answer, err := http.Get(s.fake.BaseURL() + "/clinic/nothing?here=too")
	require.NoError(s.t, err)
	require.NoError(s.t, answer.Body.Close())
	s.fake.Fault(model.Fault{Effect: model.DropAfterCommit, Operation: "patients.create", Times: 1})
}

// Every page of the console is in order, and whatever it links to is there.
func TestTheWholeConsole(t *testing.T) {
	t.Parallel()
	s, b, still := newFixture(t), open(t), open(t)
	call(still, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	for _, page := range []string{"tokens", "timeline", "events", "deliveries", "requests", "clock", "faults"} {
		b.visit(s.console + page)
		b.audit("empty " + page)
	}
	s.fill()
	links := map[string]bool{}
	for _, page := range []string{
		"", "tokens", "world", "world?kind=plans", "world?kind=orders", "world?kind=practitioners", "world?kind=products", "timeline",
		"events", "events?select=" + s.fake.Events()[0].ID, "deliveries", "deliveries?select=" + s.fake.Webhooks.Deliveries()[0].ID,
		"requests", "requests?select=request-1", "requests?select=request-2", "clock", "faults", "behaviors",
	} {
		b.visit(s.console + page)
		b.audit("console/" + page)
		still.visit(s.console + page)
		still.auditIn([]look{{"light", phone}}, "without scripts, console/"+page)
		for _, link := range eval[[]string](b, `[...document.links].map((link) => link.href.split("#")[0])`) {
			links[link] = true
		}
	}
	for link := range links {
		answer, err := http.Get(link)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode, link)
	}
	b.visit(s.console + "deliveries")
	b.fill("body.url", "mailto:a@example.com")
	b.press("Register another endpoint")
	b.refused(422)
	b.audit("a rejection")
	b.visit(s.console + "requests")
	b.press("Find what the API does not have")
	b.audit("what was done")
	b.opens(s.console+"no/such/page", http.StatusNotFound)
	b.refused(404)
	b.audit("no page")
}

// Every page of the platform is in order.
func TestAllPagesOfThePlatform(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t), open(t)
	origin := strings.TrimSuffix(s.fake.BaseURL(), "/api")
	p := s.fake
	plan := p.Plans.All()[0]
	_, err := s.client().TreatmentPlans.InOfficeCheckout(t.Context(), plan.ID)
	require.NoError(t, err)
	cancelled, _, err := p.Plans.Create(p.Patients.All()[1].ID, model.NewPlan{PersonalMessage: "Hello"})
	require.NoError(t, err)
	_, _, err = p.Plans.Cancel(cancelled.ID)
	require.NoError(t, err)

	b.visit(s.authorize())
	b.audit("signing in")
	b.fill("email", "nobody@example.org")
	b.fill("password", "wrong")
	b.press("Sign in")
	b.refused(422)
	b.audit("signing in again")
	b.signIn(s)
	b.audit("consent")
	b.opens(origin+"/auth/oauth/authorize", http.StatusNotFound)
	b.refused(404)
	b.audit("a wrong redirect")
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
