package dispensarytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestJournalRecordsRequests(t *testing.T) {
	t.Parallel()
	b := start(t)
	got := b.get("/clinic/patients/" + b.fake.Patients.All()[0].ID)
	last, any := b.fake.Journal().Last()
	require.True(t, any)
	assert.Equal(t, "patients.get", last.Operation)
	assert.Equal(t, "/clinic/patients/{id}", last.Route)
	assert.Equal(t, got.header.Get("X-Request-Id"), last.ID)
	assert.Equal(t, 200, last.Status)
	assert.Equal(t, b.fake.Users()[0].ID, last.UserID)
	assert.Equal(t, model.ScopeDecision{Required: []string{"patients:read"}, Granted: true}, last.Scope)
}

// onHead calls a function when the head of an answer is sent.
type onHead struct {
	http.ResponseWriter
	call func(status int)
}

func (w onHead) WriteHeader(status int) {
	w.call(status)
	w.ResponseWriter.WriteHeader(status)
}

// Large answers leave before their handler has ended: a test that reads the journal
// after a call must find the call there all the same.
func TestJournalKnowsARequestBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	b := start(t)
	for path, operation := range map[string]string{
		"/api/catalog/products": "products.list", httpapi.AuthPath + "/oauth/authorize": "oauth.authorize", "/api/clinic/orders/x": "orders.get", "/api/nothing": "",
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+b.token)
		before, answered := b.fake.Journal().Len(), 0
		b.fake.Handler().ServeHTTP(onHead{httptest.NewRecorder(), func(status int) {
			last, _ := b.fake.Journal().Last()
			assert.Equal(t, before+1, b.fake.Journal().Len())
			assert.Equal(t, operation, last.Operation)
			assert.Equal(t, status, last.Status)
			answered++
		}}, r)
		assert.Equal(t, 1, answered)
		assert.Equal(t, before+1, b.fake.Journal().Len(), "once")
	}
}

func TestCheckNoUnexpectedNamesNearMisses(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.get("/catalog/products?page[sise]=50").ok(200)
	body := someone()
	body["mobil_number"] = "+15035550100"
	body["metadata"] = map[string]any{"id": "x", "idd": "y"}
	b.send("POST", "/clinic/patients", body).ok(201)
	b.send("PUT", "/clinic/patients/x", map[string]any{}).refused(404, "Not Found")
	b.get("/catalogue").refused(404, "Not Found")

	f := &verdict{TB: t}
	b.fake.Journal().CheckNoUnexpected(f)
	require.Len(t, f.failures, 1)
	for _, want := range []string{
		`"page[sise]" (did you mean "page[size]"?)`, `"mobil_number" (did you mean "mobile_number"?)`, `"metadata.idd"`,
		"on this path there is GET /clinic/patients/{id}, PATCH /clinic/patients/{id}", "GET /api/catalogue → 404",
	} {
		assert.Contains(t, f.failures[0], want)
	}
}

func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	b := start(t, WithJournalLimit(3))
	for i := range 5 {
		b.get(fmt.Sprint("/nothing/", i))
	}
	var paths []string
	for _, r := range b.fake.Journal().Requests() {
		paths = append(paths, r.Path)
	}
	assert.Equal(t, []string{"/api/nothing/2", "/api/nothing/3", "/api/nothing/4"}, paths)
	assert.Equal(t, 5, b.fake.Journal().Len())
	b.fake.Journal().Reset()
	assert.Empty(t, b.fake.Journal().Requests())
}

func TestRequestIDsAreUniqueAndFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	one, two := start(t, WithSeed(7)), start(t, WithSeed(7))
	seen := make(map[string]bool)
	for range 50 {
		id := one.get("/clinic").header.Get("X-Request-Id")
		assert.Equal(t, id, two.get("/clinic").header.Get("X-Request-Id"))
		assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
		seen[id] = true
	}
	assert.Len(t, seen, 50)
}

func TestTLSCanBeRequired(t *testing.T) {
	t.Parallel()
	start(t, WithTLSRequired()).get("/clinic").refused(403, "HTTPS is required")
}
