package dispensarytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// failures collects what a check says in place of failing the test.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}
func (f *failures) Error(args ...any) { f.texts = append(f.texts, fmt.Sprint(args...)) }

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

	f := &failures{TB: t}
	b.fake.Journal().CheckNoUnexpected(f)
	require.Len(t, f.texts, 1)
	for _, want := range []string{
		`"page[sise]" (did you mean "page[size]"?)`, `"mobil_number" (did you mean "mobile_number"?)`, `"metadata.idd"`,
		"on this path there is GET /clinic/patients/{id}, PATCH /clinic/patients/{id}", "GET /api/catalogue → 404",
	} {
		assert.Contains(t, f.texts[0], want)
	}
}

func TestCheckRequested(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.get("/clinic/patients").ok(200)
	assert.Equal(t, 1, b.fake.Journal().CheckRequested(t, "patients.list").Seq)
	f := &failures{TB: t}
	b.fake.Journal().CheckRequested(f, "patient.list")
	b.get("/clinic/orders/x").refused(404, "")
	b.fake.Journal().CheckRequested(f, "orders.get")
	require.Len(t, f.texts, 2)
	assert.Contains(t, f.texts[0], `did you mean "patients.list"?`)
	assert.Contains(t, f.texts[1], "→ 404")
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

// Servers share their first world; what one does must not show in another.
func TestServersAreIsolated(t *testing.T) {
	t.Parallel()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			fake, err := Start()
			assert.NoError(t, err)
			defer fake.Close()
			jane := fake.Patients.All()[0]
			name := fmt.Sprint("Jane ", i)
			_, _, err = fake.Patients.Edit(jane.ID, model.PatientChange{FirstName: &name})
			assert.NoError(t, err)
			fake.Products.All()[0].VariantIDs[0] = "scribbled on"
			got, _ := fake.Patients.Get(jane.ID)
			assert.Equal(t, name, got.FirstName)
		})
	}
	group.Wait()
	fresh := New(t)
	assert.Equal(t, "Jane", fresh.Patients.All()[0].FirstName)
	assert.NotEqual(t, "scribbled on", fresh.Products.All()[0].VariantIDs[0])
}

func TestRegionsAreApart(t *testing.T) {
	t.Parallel()
	us, ca := start(t), start(t, WithRegion(model.Canada))
	assert.NotEqual(t, us.fake.Application().ClientID, ca.fake.Application().ClientID)
	us.token = ca.token
	us.get("/clinic").refused(401, "invalid")
	patient := ca.fake.Patients.All()[0].ID
	assert.Equal(t, []any{"Canada"}, ca.get("/clinic/patients/"+patient+"/addresses").column("addresses", "country"))
	assert.NotEqual(t, patient, us.fake.Patients.All()[0].ID)
}

func TestWrongOptionsFailLoudly(t *testing.T) {
	t.Parallel()
	for _, opt := range []Option{
		WithAddr("nowhere"), WithClock(nil), WithDeliveryClient(nil), WithDeliveryTimeout(0), WithIntegrations(0), WithJournalLimit(0),
		WithBehavior("probe=9"), WithRedirectURI("/relative"), WithRedirectURI("http://ehr.example.com/cb"), WithBehavior("refresh-rotation=none-such"), WithRegion("UK"),
		WithScopes("everything"), WithWebhook("http://ehr.example.com/hook"), WithWebhook("https://ehr.example.com/hook", "order.paid"),
	} {
		_, err := Start(opt)
		require.Error(t, err)
		assert.True(t, strings.HasPrefix(err.Error(), "dispensarytest: "), err)
	}
}

func TestTLSCanBeRequired(t *testing.T) {
	t.Parallel()
	start(t, WithTLSRequired()).get("/clinic").refused(403, "HTTPS is required")
}
