package browser

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

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
