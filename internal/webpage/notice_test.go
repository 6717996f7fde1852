package webpage_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/internal/webpage"
)

func TestNoticePolicyAllowsOwnSheet(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	page := webpage.Notice{Name: "Maple <EHR>", Title: "Not connected", Text: "a < b", Links: []webpage.Link{{URL: "/go", Text: "Go"}, {URL: "javascript:alert(1)", Text: "Back"}}}
	page.Write(w, http.StatusBadGateway)
	text := w.Body.String()
	_, rest, _ := strings.Cut(text, "<style>")
	sheet, _, _ := strings.Cut(rest, "</style>")
	digest := sha256.Sum256([]byte(sheet))
	assert.Equal(t, "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", w.Header().Get("Content-Security-Policy"))
	assert.Equal(t, http.StatusBadGateway, w.Code)
	assert.Equal(t, 1, strings.Count(text, "<style"))
	for _, want := range []string{"<title>Not connected · Maple &lt;EHR&gt;</title>", "<h1>Not connected</h1>", "<p>a &lt; b</p>", `<a class="go" href="/go">Go</a>`, ">Back</a>"} {
		assert.Contains(t, text, want)
	}
	for _, unwanted := range []string{"style=", "<script", "javascript:", "reference"} {
		assert.NotContains(t, text, unwanted)
	}
}
