package browser

import (
	"net/http/httptest"
	"net/url"
	"path"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/cmd/dispensary/internal/site"
	"github.com/dispensary-go/dispensary/docs"
)

func newSite(t *testing.T) *site.Site {
	t.Helper()
	s, err := site.New(docs.Pages)
	require.NoError(t, err)
	return s
}

// Every page of the documentation is in order.
func TestTheWholeDocumentation(t *testing.T) {
	t.Parallel()
	s, b := newSite(t), open(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	for n, name := range s.Files() {
		if path.Ext(name) == ".html" {
			b.visit(server.URL + "/" + name)
			b.auditIn(looksOf(n), name)
		}
	}
}

// The documentation is searched, from a server or from a folder; without scripts the
// field leads to the list of all names.
func TestTheDocumentationIsSearched(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	folder := t.TempDir()
	require.NoError(t, s.Write(folder))
	first := `document.querySelector("#results a").textContent`
	for where, start := range map[string]string{
		"from a server": server.URL + "/packages/oauth/tokens.html",
		"from a folder": (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(folder, "packages", "oauth", "tokens.html"))}).String(),
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			run(b, chromedp.Navigate(start)) // a file has no status
			b.sees("Package oauth/tokens")
			b.fill("q", "router")
			b.press("Search")
			assert.Equal(t, "webhook.Router", eval[string](b, first))
			b.audit("what was found")
			b.fill("q", "ErrRateLimited")
			assert.Equal(t, "api.ErrRateLimited", eval[string](b, first))
			b.fill("q", "xyzzy")
			b.sees("0 found")
			b.fill("q", "Dispatch runs the handler of the event")
			b.leads(chromedp.Click(chromedp.CSS("#results a"), chromedp.NodeVisible))
			b.sees("Package webhook")
		})
	}
	t.Run("without scripts", func(t *testing.T) {
		t.Parallel()
		b := open(t)
		call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		b.visit(server.URL)
		b.fill("q", "router")
		b.press("Search")
		b.sees("webhook.Router.Dispatch")
		b.press("webhook.Router.Dispatch")
		b.sees("Dispatch runs the handler")
	})
}
