package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience is the longest wait of a tab for a condition.
const patience = 2 * time.Minute

// tab is a browser tab with a new profile. Every error that the browser reports fails the test.
type tab struct {
	t       *testing.T
	ctx     context.Context
	without bool // scripts are disabled

	mu       sync.Mutex
	problems []string
}

// twice runs a walk with scripts and without scripts.
func twice(t *testing.T, walk func(s *fixture, b *tab)) {
	t.Helper()
	for name, without := range map[string]bool{"with scripts": false, "without scripts": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := newFixture(t), open(t)
			b.disableScripts(without)
			walk(s, b)
		})
	}
}

// open returns a new tab. It skips the test if no browser is installed.
func open(t *testing.T) *tab {
	t.Helper()
	if chromium == nil {
		t.Skip("Chromium is not installed")
	}
	b := &tab{t: t}
	ctx, leave := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	t.Cleanup(leave)
	require.NoError(t, chromedp.Do(ctx)) // a timeout here would apply to the whole tab
	b.ctx = ctx
	// Treat every tab as the active one, so that pages are visible and focus is drawn.
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	t.Cleanup(b.clean)
	return b
}

// disableScripts disables or enables the scripts of pages.
func (b *tab) disableScripts(without bool) {
	b.t.Helper()
	b.without = without
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: without})
}

// hear records an error that the browser reports.
func (b *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.note("console.%s", e.Type)
	case *runtime.EventExceptionThrown:
		b.note("exception: %s", e.ExceptionDetails.Text)
	case *log.EventEntryAdded: // includes violations of the content security policy
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			b.note("%s: %s", e.Entry.Level, e.Entry.Text)
		}
	case *network.EventLoadingFailed:
		if !e.Canceled {
			b.note("request failed: %s", e.ErrorText)
		}
	}
}

func (b *tab) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// clean requires that the browser reported no error.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) > 0 {
		b.t.Errorf("errors in the browser:\n%s", strings.Join(b.problems, "\n"))
	}
}

// call sends one command of the DevTools protocol.
func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	return run(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, command, params) })
}

func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	require.NoError(b.t, err)
	return value
}

// visit opens a URL and requires status 200.
func (b *tab) visit(address string) { b.t.Helper(); b.opens(address, http.StatusOK) }

// opens opens a URL and requires a status.
func (b *tab) opens(address string, status int64) {
	b.t.Helper()
	require.Equal(b.t, status, run(b, chromedp.NavigateResponse(address)).Status, address)
}

// rejected requires that the browser reported a page with this error status, and removes the
// report.
func (b *tab) rejected(status int) {
	b.t.Helper()
	report := fmt.Sprintf("error: Failed to load resource: the server responded with a status of %d (%s)", status, http.StatusText(status))
	b.wait(report, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		at := slices.Index(b.problems, report)
		if at >= 0 {
			b.problems = slices.Delete(b.problems, at, at+1)
		}
		return at >= 0
	})
}

// named selects a button, link or summary by the beginning of its name.
func named(name string) chromedp.Search {
	return chromedp.Search(fmt.Sprintf(`//*[self::button or self::a or self::summary][starts-with(normalize-space(), %q) or starts-with(@aria-label, %q)]`, name, name))
}

// press clicks on the first match of name and waits for the next page.
func (b *tab) press(name string) {
	b.t.Helper()
	b.leads(chromedp.Click(named(name), chromedp.NodeVisible))
}

// unfold clicks on a control that stays on its page.
func (b *tab) unfold(name string) {
	b.t.Helper()
	run(b, chromedp.Click(named(name), chromedp.NodeVisible))
}

// keys presses keys one after another.
func (b *tab) keys(keys string) {
	b.t.Helper()
	run(b, chromedp.KeyEvent(keys))
}

// leads runs an action and waits for the next page.
func (b *tab) leads(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, action)
	require.NoError(b.t, err)
}

// fill replaces the text of the field with this name.
func (b *tab) fill(field, text string) {
	b.t.Helper()
	at := chromedp.CSS(fmt.Sprintf(`[name=%q]`, field))
	run(b, chromedp.Steps(
		chromedp.Focus(at, chromedp.NodeVisible),
		chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(kb.Backspace),
	))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// eval returns the result of a script outside the scripts of the page.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script))
}

func (b *tab) text() string {
	b.t.Helper()
	return eval[string](b, `document.body.innerText`)
}

// sees waits for texts on the page.
func (b *tab) sees(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.wait(fmt.Sprintf("%q on the page", text), func() bool { return strings.Contains(b.text(), text) })
	}
}

// wait waits until come returns true.
func (b *tab) wait(what string, come func() bool) {
	b.t.Helper()
	again, tooLate := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer again.Stop()
	for !come() {
		select {
		case <-again.C:
		case <-tooLate:
			require.FailNow(b.t, "missing "+what)
		}
	}
}

// Every kind of error behind a page is recorded.
func TestTabRecordsErrors(t *testing.T) {
	t.Parallel()
	b := open(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Security-Policy", "default-src 'self'")
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!doctype html><title>Page</title><script src="script.js"></script>
				<script>"inline"</script><img src="missing.png" alt=""><img src="broken.png" alt="">`)
		case "/script.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, `console.warn("careful"); throw new Error("boom")`)
		case "/broken.png":
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b.visit(server.URL)
	for _, report := range []string{"console.warning", "exception: Uncaught", "Content Security Policy", "status of 404", "request failed"} {
		b.wait(report, func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.ContainsFunc(b.problems, func(p string) bool { return strings.Contains(p, report) })
		})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = nil // expected in this test
}
