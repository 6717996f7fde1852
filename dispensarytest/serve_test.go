package dispensarytest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestUnknownPathsAreNotFound(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for _, path := range []string{
		"", "/", "//", "/clinic/", "/clinic//patients", "/Clinic", "/clinic/patients/", "/catalog/products/x/y/z", "/..", "/clinic/../clinic",
		"/oauth", "/oauth/authorize/", "/events", "/webhooks", "/clinic/protocols",
	} {
		req, err := http.NewRequest("GET", b.fake.Site().BaseURL, nil)
		require.NoError(t, err)
		req.URL.Opaque, req.URL.Path, req.URL.RawPath = "", httpapi.BasePath+path, ""
		resp, err := b.fake.HTTPClient().Do(req)
		require.NoError(t, err)
		got := decoded(t, resp)
		assert.Equal(t, 404, got.status, "%q", path)
		assert.JSONEq(t, `{"status":404,"error":"Not Found"}`, got.text)
	}
	for _, path := range []string{"/", "/auth", "/auth/clinic", "/apiclinic", "/v1/clinic"} {
		assert.Equal(t, 404, b.fetch("GET", b.fake.origin+path, "").status, path)
	}
}

// Ids are opaque: the escaped form of any id finds it.
func TestEscapedIDsAreFound(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	id := b.fake.Patients.All()[0].ID
	escaped := strings.ReplaceAll(id, "-", "%2D")
	assert.Equal(t, id, b.get("/clinic/patients/"+escaped).ok(200, "patient", "id"))
	last, _ := lastRequest(b.fake)
	assert.Equal(t, "/api/clinic/patients/"+escaped, last.Path, "the journal stores the escaped path")
	assert.Equal(t, "/clinic/patients/{id}", last.Route)
}

func TestBodiesHaveSizeLimit(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	fits := `{"email":"big@example.org","first_name":"B","last_name":"g"` + strings.Repeat(" ", httpapi.MaxBody-100) + `}`
	b.send("POST", "/clinic/patients", fits).ok(201)
	b.send("POST", "/clinic/patients", fits+strings.Repeat(" ", httpapi.MaxBody)).rejected(413, `{"status":413,"error":"The request body is too large"}`)
	b.send("POST", "/oauth/token", strings.Repeat(" ", httpapi.MaxBody+1)).rejected(413, "too large")
	for kind, status := range map[string]int{"application/json": 422, "application/json; charset=utf-8": 422, "text/plain": 400, "": 400, "application/x-www-form-urlencoded": 400, ";;": 400} {
		got := b.fetch("POST", b.fake.Site().BaseURL+"/clinic/patients", "{}", "Authorization", "Bearer "+b.token, "Content-Type", kind)
		assert.Equal(t, status, got.status, "%q", kind)
	}
}

func TestJournalListsUnreadFields(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for _, c := range []struct {
		method, path string
		body         map[string]any
		want         []string
	}{
		{"POST", "/clinic/patients", map[string]any{"e_mail": "x", "firstName": "y"}, []string{`"e_mail" (did you mean "email"?)`, `"firstName" (did you mean "first_name"?)`}},
		{"PATCH", "/clinic/patients/" + b.fake.Patients.All()[0].ID, map[string]any{"patient": map[string]any{}}, []string{`"patient"`}},
		{"POST", "/clinic/dynamic_links/treatment_plans", map[string]any{"treatment_plan": map[string]any{"practitioner": "x"}}, []string{`"treatment_plan.practitioner" (did you mean "practitioner_id"?)`}},
		{"POST", "/oauth/token", map[string]any{"granttype": "refresh_token"}, nil}, // rejected before the required fields are known
	} {
		b.send(c.method, c.path, c.body)
		last, _ := lastRequest(b.fake)
		var got []string
		for _, u := range last.Unread {
			got = append(got, u.String())
		}
		assert.Equal(t, c.want, got, c.path)
	}
}

// The number of open authorize pages is limited, and each is valid for ten minutes.
func TestAuthorizePagesAreLimited(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	first := flowOf(b.open(b.authorizeURL(nil)))
	for range tokens.MaxFlows - 1 {
		b.fake.tokens.OpenFlow(tokens.Flow{})
	}
	assert.Len(t, b.fake.tokens.Flows, tokens.MaxFlows)
	b.fake.Clock.Advance(tokens.CodeLifetime)
	late := b.submit(url.Values{"flow": {first}, "email": {"x"}, "password": {"y"}})
	late.rejected(403, "too old")
	b.fake.tokens.OpenFlow(tokens.Flow{})
	last := flowOf(b.open(b.authorizeURL(nil)))
	assert.LessOrEqual(t, len(b.fake.tokens.Flows), 2, "expired flows are deleted")
	b.submit(url.Values{"flow": {last}, "email": {"x"}, "password": {"y"}}).rejected(422, "is wrong")
	for range 2 * tokens.MaxFlows {
		b.fake.tokens.OpenFlow(tokens.Flow{})
		b.fake.tokens.OpenSession("someone")
	}
	assert.LessOrEqual(t, len(b.fake.tokens.Flows), tokens.MaxFlows)
	assert.LessOrEqual(t, len(b.fake.tokens.Sessions), tokens.MaxFlows)
}

// A callback keeps the query parameters of the application's redirect URL.
func TestRedirectKeepsQuery(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithRedirectURI("https://ehr.example.com/cb?tenant=7&state=mine"))
	back, err := b.fake.Approve(b.authorizeURL(url.Values{"state": {"a b&c=d/é"}}), model.User{})
	require.NoError(t, err)
	assert.Equal(t, []string{"a b&c=d/é"}, back.Query()["state"])
	assert.Equal(t, "7", back.Query().Get("tenant"))
	assert.Equal(t, "ehr.example.com", back.Host)
	assert.NotEmpty(t, back.Query().Get("code"))
	rejected := b.open(b.authorizeURL(url.Values{"response_type": {""}, "state": {"s"}}))
	at, err := url.Parse(rejected.header.Get("Location"))
	require.NoError(t, err)
	assert.Equal(t, "invalid_request", at.Query().Get("error"))
	assert.Equal(t, "s", at.Query().Get("state"))
	b.open(b.fake.Site().AuthURL+"/oauth/authorize?a=%zz").rejected(400, "malformed")
}

func TestCheckRequestedListsOtherRequests(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	_, any := lastRequest(b.fake)
	assert.False(t, any)
	b.get("/clinic").ok(200)
	b.get("/clinic").ok(200)
	assert.Equal(t, 2, b.fake.Journal.CheckRequested(t, "clinic.get").Seq, "the latest")
	assert.Len(t, b.fake.Journal.Requests("clinic.get"), 2)
	miss := &verdict{TB: t}
	assert.Zero(t, b.fake.Journal.CheckRequested(miss, "staff.create"))
	assert.Contains(t, miss.failures[0], `expected a request for staff.create; there were requests for ["clinic.get"]`)
	assert.NotContains(t, miss.failures[0], "did you mean")
	b.fake.Journal.CheckRequested(miss, "clinics.get")
	assert.Contains(t, miss.failures[1], `did you mean "clinic.get"?`)
	b.get("/clinic/orders/x?secret=1")
	last, _ := lastRequest(b.fake)
	assert.Equal(t, "#3 orders.get GET /api/clinic/orders/x → 404 Not Found", last.String(), "a line for a log contains no query")
	b.fake.Journal.CheckRequested(miss, "orders.get")
	assert.Contains(t, miss.failures[2], "expected orders.get to succeed; the latest of 1 requests was #3")
	b.get("/nothing")
	last, _ = lastRequest(b.fake)
	assert.Equal(t, "#4 (no operation) GET /api/nothing → 404 Not Found", last.String())
}

// Requests, actions and time run concurrently, for the race detector.
func TestPlatformSupportsConcurrentUse(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithTuning(Tuning{JournalLimit: 50}))
	b.hosts(nil)
	jane := b.fake.Patients.All()[0]
	done := make(chan struct{})
	for i := range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for n := range 25 {
				switch (i + n) % 8 {
				case 0:
					b.get("/clinic/patients").ok(200)
				case 1:
					b.send("PATCH", "/clinic/patients/"+jane.ID, map[string]any{"first_name": fmt.Sprint(n)}).ok(200)
				case 2:
					_, e, err := b.fake.Orders.Place(jane.ID, model.OrderCreate{})
					if assert.NoError(t, err) {
						assert.NoError(t, b.fake.Webhooks.WaitDelivered(t.Context(), e.ID))
					}
				case 3:
					b.get("/webhooks/deliveries").ok(200)
				case 4:
					b.renew(b.fake.Tokens.Issue(model.User{}).RefreshToken).ok(200)
				case 5:
					b.fake.Clock.Advance(time.Millisecond)
				case 6:
					_ = b.fake.Journal.Requests()
					_, _ = lastRequest(b.fake)
				case 7:
					b.send("POST", b.plansOf(jane.ID), b.draft(nil)).ok(201)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	b.fake.Journal.CheckNoUnexpected(t)
}
