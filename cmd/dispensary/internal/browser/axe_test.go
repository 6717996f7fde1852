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

	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

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
