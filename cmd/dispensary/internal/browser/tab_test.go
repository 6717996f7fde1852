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

// patience is how long a tab waits for something that must happen.
const patience = 2 * time.Minute

// tab is a tab of the browser with a new profile. Anything that goes wrong behind a
// page fails the test.
type tab struct {
	t       *testing.T
	ctx     context.Context
	without bool // scripts

	mu       sync.Mutex
	problems []string
}

// twice runs a walk with scripts and without.
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

// open skips the test where there is no browser.
func open(t *testing.T) *tab {
	t.Helper()
	if chromium == nil {
		t.Skip("Chromium is not installed")
	}
	b := &tab{t: t}
	ctx, leave := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.hear))
	t.Cleanup(leave)
	require.NoError(t, chromedp.Do(ctx)) // without a limit, which would be the tab's
	b.ctx = ctx
	// Every tab is the one in front: focus is shown, and pages think themselves seen.
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	t.Cleanup(b.clean)
	return b
}

// disableScripts disables the scripts of pages, or enables them.
func (b *tab) disableScripts(without bool) {
	b.t.Helper()
	b.without = without
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: without})
}

// hear records what went wrong.
func (b *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.note("console.%s", e.Type)
	case *runtime.EventExceptionThrown:
		b.note("exception: %s", e.ExceptionDetails.Text)
	case *log.EventEntryAdded: // violated policies among them
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

// clean demands that nothing went wrong.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.problems) > 0 {
		b.t.Errorf("the browser reports:\n%s", strings.Join(b.problems, "\n"))
	}
}

// call sends one command of the browser's protocol.
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

// visit opens an address.
func (b *tab) visit(address string) { b.t.Helper(); b.opens(address, http.StatusOK) }

// opens opens an address and demands a status.
func (b *tab) opens(address string, status int64) {
	b.t.Helper()
	require.Equal(b.t, status, run(b, chromedp.NavigateResponse(address)).Status, address)
}

// refused demands that the page came with a status that browsers report, and takes
// the report out of what went wrong.
func (b *tab) refused(status int) {
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

// named finds what a person presses by the beginning of its name.
func named(name string) chromedp.Search {
	return chromedp.Search(fmt.Sprintf(`//*[self::button or self::a or self::summary][starts-with(normalize-space(), %q) or starts-with(@aria-label, %q)]`, name, name))
}

// press clicks on the first thing of a name and waits for the page it leads to.
func (b *tab) press(name string) {
	b.t.Helper()
	b.leads(chromedp.Click(named(name), chromedp.NodeVisible))
}

// unfold clicks on something that stays on its page.
func (b *tab) unfold(name string) {
	b.t.Helper()
	run(b, chromedp.Click(named(name), chromedp.NodeVisible))
}

// keys presses keys, one after the other.
func (b *tab) keys(keys string) {
	b.t.Helper()
	run(b, chromedp.KeyEvent(keys))
}

// leads runs what leads to another page, and waits for that.
func (b *tab) leads(action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, action)
	require.NoError(b.t, err)
}

// fill types a text into the field of a name, in place of what is in it.
func (b *tab) fill(field, text string) {
	b.t.Helper()
	at := chromedp.CSS(fmt.Sprintf(`[name=%q]`, field))
	run(b, chromedp.Steps(
		chromedp.Focus(at, chromedp.NodeVisible),
		chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(kb.Backspace),
	))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
}

// eval is what a script answers that no page sees.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	return run(b, chromedp.Evaluate[T](script))
}

func (b *tab) text() string {
	b.t.Helper()
	return eval[string](b, `document.body.innerText`)
}

// sees demands texts on the page, which may appear a little later.
func (b *tab) sees(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		b.wait(fmt.Sprintf("%q on the page", text), func() bool { return strings.Contains(b.text(), text) })
	}
}

// wait demands that something comes true.
func (b *tab) wait(what string, come func() bool) {
	b.t.Helper()
	again, tooLate := time.NewTicker(20*time.Millisecond), time.After(patience)
	defer again.Stop()
	for !come() {
		select {
		case <-again.C:
		case <-tooLate:
			require.FailNow(b.t, "there is no "+what)
		}
	}
}

// Everything that goes wrong behind a page fails the test.
func TestATabHears(t *testing.T) {
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
	b.problems = nil // this once they are as they should be
}
