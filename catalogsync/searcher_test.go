package catalogsync_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync"
)

func TestHandlerServesSearches(t *testing.T) {
	t.Parallel()
	var searcher catalogsync.Searcher
	get := func(query url.Values) (int, string) {
		w := httptest.NewRecorder()
		searcher.Handler(catalogsync.HandlerConfig{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?"+query.Encode(), nil))
		assert.Equal(t, http.Header{
			"Content-Type": {"application/json"}, "Cache-Control": {"no-store"},
			"Cross-Origin-Resource-Policy": {"same-origin"}, "X-Content-Type-Options": {"nosniff"},
		}, w.Header())
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	status, body := get(url.Values{"q": {"zinc"}})
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.JSONEq(t, `{"hits":[],"age_seconds":0,"error":{"reason":"the catalog is not loaded yet"}}`, body)

	require.NoError(t, searcher.Load(t.Context(), storeOf(t, entry("Zinc A", "one", "ONE-1", "1"), entry("Zinc B", "two", "TWO-1", "2"))))
	status, body = get(url.Values{"q": {"zinc"}, "limit": {"1"}, "brand_id": {"two"}})
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"hits":[{"product_id":"Zinc B","name":"Zinc B","status":"","brand_id":"two","brand":"two",
		"variant_id":"v-Zinc B","sku":"TWO-1","upc":"2","variant_status":""}],"age_seconds":0}`, body)
	for _, empty := range []url.Values{{}, {"q": {" "}}, {"q": {"nothing"}}, {"q": {"zinc"}, "ingredient_ids[]": {"x"}}, {"q": {"zinc"}, "allergen_ids[]": {"x"}}} {
		status, body = get(empty)
		assert.Equal(t, http.StatusOK, status)
		assert.JSONEq(t, `{"hits":[],"age_seconds":0}`, body)
	}
	for want, query := range map[string]url.Values{
		`{"field":"q","reason":"is longer than 200 bytes"}`:  {"q": {strings.Repeat("a", 201)}},
		`{"field":"limit","reason":"must be from 0 to 100"}`: {"limit": {"1000"}},
		`{"field":"limit","reason":"must be a number"}`:      {"limit": {"many"}},
	} {
		status, body = get(query)
		assert.Equal(t, http.StatusBadRequest, status)
		var a struct{ Error json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(body), &a))
		assert.JSONEq(t, want, string(a.Error))
	}
	w := httptest.NewRecorder()
	searcher.Handler(catalogsync.HandlerConfig{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?q=%zz", nil))
	assert.Equal(t, http.StatusBadRequest, w.Code)
	w = httptest.NewRecorder()
	searcher.Handler(catalogsync.HandlerConfig{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/?q=zinc", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}
