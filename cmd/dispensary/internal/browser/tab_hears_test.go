package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// Nothing that goes wrong behind a page goes unheard.
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
