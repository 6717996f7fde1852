package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
	"github.com/dispensary-go/dispensary/internal/webpage"
)

// A product name may be longer than a line. Prices name their currency.
func TestLongProductNameFitsPage(t *testing.T) {
	t.Parallel()
	s, b := newFixture(t, dispensarytest.WithEnvironment(api.CanadaSandbox)), open(t)
	p := s.fake
	product, _, err := p.Products.Create(model.ProductCreate{
		Name: "Magnesium bisglycinate with vitamin B6 and " + strings.Repeat("Donaudampfschifffahrt", 5) + " of the very first harvest of the year",
	})
	require.NoError(t, err)
	plan, _, err := p.Plans.Create(p.Patients.All()[0].ID, model.PlanCreate{
		Recommendations: []model.Recommendation{{VariantID: product.VariantIDs[0], UnitsToPurchase: 1}},
	})
	require.NoError(t, err)
	b.visit(strings.TrimSuffix(s.fake.Site().BaseURL, "/api") + "/plans/" + plan.ID + "/edit")
	for _, width := range []int64{1280, narrow} {
		b.window(width, 900)
		assert.Empty(t, eval[[]string](b, `[...document.querySelectorAll("legend")].filter((legend) => {
			const frame = legend.parentElement.getBoundingClientRect(), at = legend.getBoundingClientRect();
			const onTheEdge = getComputedStyle(legend).float === "none" && legend.getClientRects().length && at.height > 36;
			return onTheEdge || at.left < frame.left || at.right > frame.right || legend.scrollWidth > legend.clientWidth;
		}).map((legend) => legend.innerText)`), "at %d px", width)
	}
	b.sees(" CAD")
}

// The browser applies the inline style sheet, and all its own requests succeed.
func TestNoticeIsStyled(t *testing.T) {
	t.Parallel()
	b := open(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		page := webpage.Notice{
			Name: "Maple EHR", Title: "Not connected", Text: "The dispensary cannot be reached.", Reference: "req-1",
			Links: []webpage.Link{{URL: "/connect", Text: "Try again"}, {URL: "/", Text: "Continue without connecting"}},
		}
		page.Write(w, http.StatusOK)
	}))
	t.Cleanup(server.Close)
	b.visit(server.URL)
	b.audit("a notice")
	assert.NotEqual(t, "rgba(0, 0, 0, 0)", eval[string](b, `getComputedStyle(document.querySelector("a.go")).backgroundColor`))
}

// axeFile is the environment variable with the path of axe.min.js.
const axeFile = "DISPENSARY_TEST_AXE"

// axeScript returns the source of axe-core, or "" without the variable.
var axeScript = sync.OnceValues(func() (string, error) {
	if os.Getenv(axeFile) == "" {
		return "", nil
	}
	script, err := os.ReadFile(os.Getenv(axeFile))
	return string(script), err
})

// axe returns the violations of axe rules on the open page, or only of the rules on colors. It returns
// nil without the variable, or if scripts are disabled: axe needs timers, and the same page with scripts
// has the same violations. The DevTools protocol runs axe, so the page's policy cannot block it. The policy
// would block its requests, so axe loads nothing.
func (b *tab) axe(onlyColors bool) []string {
	b.t.Helper()
	script, err := axeScript()
	require.NoError(b.t, err)
	if script == "" || b.without {
		return nil
	}
	if !eval[bool](b, `"axe" in window`) {
		run(b, chromedp.Evaluate[chromedp.Void](script))
	}
	only := ""
	if onlyColors {
		only = `runOnly: ["color-contrast", "link-in-text-block"],`
	}
	return run(b, chromedp.Evaluate[[]string](`axe.run({
		preload: false, iframes: false, resultTypes: ["violations"], rules: { "target-size": { enabled: true } }, `+only+`
	}).then(({ violations }) => violations.flatMap(({ id, nodes }) =>
		nodes.map(({ target, failureSummary }) => [id, target, failureSummary].join(": "))))`, chromedp.EvalAwaitPromise))
}

// axe finds violations on a page with a strict policy.
func TestAxeFindsViolations(t *testing.T) {
	testsize.SkipByDay(t)
	t.Parallel()
	if os.Getenv(axeFile) == "" {
		t.Skip(axeFile + " is not set")
	}
	b := open(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:")
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Page</title>
			<main><h1>Page</h1><form><input name="nameless"></form><font color="#999999">pale</font>
			<ul><li><font size="1"><a href="/a">a</a></font><li><font size="1"><a href="/b">b</a></font></ul></main>`)
	}))
	t.Cleanup(server.Close)
	b.visit(server.URL)
	var rules []string
	for _, found := range b.axe(false) {
		rule, _, _ := strings.Cut(found, ":")
		rules = append(rules, rule)
	}
	assert.Equal(t, []string{"color-contrast", "label", "target-size", "target-size"}, rules)
	assert.Len(t, b.axe(true), 1)
}
