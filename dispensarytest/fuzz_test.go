package dispensarytest

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// target is a platform for random requests.
type target struct {
	fake   *Server
	tokens []string
	ids    *strings.Replacer
}

// wild is a random request.
type wild struct {
	method, path, query, body string
	token                     uint8 // index of the target's token
	header, value             string
}

func newTarget(t testing.TB) *target {
	fake := New(t, WithTuning(Tuning{JournalLimit: 10}), WithClock(frozen()))
	all := fake.Tokens.Issue(model.User{}).AccessToken
	activate(t, fake)
	require.NoError(t, fake.Webhooks.RegisterHandler(newReceiver(nil)))
	_, event, err := fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	_ = fake.Webhooks.WaitDelivered(t.Context(), event.ID) // the response is invalid, but the log has an attempt
	expired := fake.Tokens.Issue(model.User{}).AccessToken
	require.NoError(t, fake.Tokens.Expire(expired))
	require.Len(t, fake.Webhooks.Deliveries()[0].Attempts, 1)
	return &target{
		fake:   fake,
		tokens: []string{all, all, all, all, fake.Tokens.Issue(model.User{}, "catalog:read").AccessToken, expired, "guess", ""},
		ids: strings.NewReplacer("{patient_id}", fake.Patients.All()[0].ID, "{practitioner_id}", fake.Practitioners.All()[0].ID, "{product_id}", fake.Products.All()[0].ID,
			"{category_id}", fake.store.World.Categories.Rows[0].ID, "{id}", fake.Plans.All()[0].ID, "{treatment_plan_id}", fake.Plans.All()[1].ID,
			"{variant}", fake.Products.All()[0].VariantIDs[0], "{event}", event.ID, "{key}", fake.ClinicKey()),
	}
}

// throw sends a request and requires that it does no harm. There must be no panic and no 5xx,
// and an X-Request-Id. A rejection and a GET must not change anything.
func (g *target) throw(t testing.TB, r wild) int {
	t.Helper()
	req, err := http.NewRequest(r.method, g.fake.Site().BaseURL+g.ids.Replace(r.path), strings.NewReader(g.ids.Replace(r.body)))
	if err != nil {
		return 0 // no client can send this
	}
	req.URL.RawQuery = g.ids.Replace(r.query)
	req.Header.Set("Content-Type", "application/json")
	if token := g.tokens[int(r.token)%len(g.tokens)]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if r.header != "" {
		req.Header.Set(r.header, g.ids.Replace(r.value))
	}
	before := g.fake.state()
	w := httptest.NewRecorder()
	g.fake.Handler().ServeHTTP(w, req)
	if w.Code >= 500 || w.Header().Get("X-Request-Id") == "" {
		t.Fatalf("%+v → %d %s", r, w.Code, w.Body)
	}
	if (w.Code >= 400 || r.method == http.MethodGet) && !reflect.DeepEqual(before, g.fake.state()) {
		t.Fatalf("%+v → %d changed something", r, w.Code)
	}
	return w.Code
}

// wildBodies seed the fuzzer. The random test cuts and mixes them.
var wildBodies = []string{
	"", "{}", "null", "[]", `{"email":"a@example.org","first_name":1,"last_name":"x","metadata":[]}`,
	`{"email":"new@example.org","first_name":"A","last_name":"B","practitioner_type_id":"x","discount":1e400,"gender":"x"}`,
	`{"recommendations":[{"variant_id":{}}],"practitioner_id":null}`,
	`{"recommendations":[{"variant_id":"{variant}","units_to_purchase":"2","refill":"true","dosage":{"amount":"1"}}],"practitioner_id":"{practitioner_id}","state":"draft"}`,
	`{"treatment_plan":{"practitioner_id":"{practitioner_id}"},"patient":{"email":0}}`,
	`{"treatment_plan":{},"patient":{"email":"link@example.org","date_of_birth":"0000-00-00"}}`,
	`{"grant_type":"authorization_code","client_id":"x","client_secret":"y","redirect_uri":"z","code":["a"]}`,
	`{"token":{"a":{"b":[[[[[]]]]]}}}`,
}

var wildQueries = []string{
	"", "page[size]=1&sort_by=x&created_at=%3C", "page[number]=-1", "page[number]=9999999999&page[size]=0", "created_at=2026-01-01..", "%", "a=%zz&;",
	"id=%00&type=patient", "query=%ff&brand_id[]=x", "sort_by=created_at&order_by=DESC", "completed_at=%3E9999-12-31", "attempted_at=..&successfully_delivered=TRUE",
}

var wildHeaders = [][2]string{
	{"", ""}, {"X-SVC-Clinic-Key", "{key}"}, {"X-SVC-Clinic-Key", "guess"}, {"Authorization", "Basic eA=="}, {"Authorization", "bearer"},
	{"Content-Type", "text/plain"}, {"Content-Type", ";"}, {"Content-Type", "application/json; charset=utf-16"}, {"Sec-Fetch-Site", "cross-site"},
}

func FuzzAnyRequest(f *testing.F) {
	for i, op := range operations.All() {
		header := wildHeaders[i%len(wildHeaders)]
		f.Add(op.Method, op.Route, wildQueries[i%len(wildQueries)], wildBodies[i%len(wildBodies)], uint8(i), header[0], header[1])
	}
	g := newTarget(f)
	f.Fuzz(func(t *testing.T, method, path, query, body string, token uint8, header, value string) {
		g.throw(t, wild{method, path, query, body, token, header, value})
	})
}

// The random test needs no fuzzer: every route receives thousands of mixed and damaged bodies,
// queries and headers in every run.
func TestWildRequestsDoNoHarm(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	g, source := newTarget(t), rand.New(rand.NewPCG(7, 7))
	one := func(of []string) string { return of[source.IntN(len(of))] }
	responded := make(map[int]int)
	for range 150 {
		for _, op := range operations.All() {
			r := wild{method: op.Method, path: op.Route, query: one(wildQueries), body: one(wildBodies), token: uint8(source.UintN(256))}
			switch source.IntN(6) {
			case 0:
				r.method = one([]string{"GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "X"})
			case 1:
				r.body = damaged(source, r.body)
			case 2:
				r.path = damaged(source, r.path)
			case 3:
				header := wildHeaders[source.IntN(len(wildHeaders))]
				r.header, r.value = header[0], header[1]
			}
			responded[g.throw(t, r)]++
		}
	}
	for _, status := range []int{200, 201, 400, 401, 403, 404, 422} {
		if responded[status] == 0 {
			t.Errorf("no response had the status %d: %v", status, responded)
		}
	}
}

// damaged cuts a text, repeats a part of it, or inserts a wrong byte.
func damaged(source *rand.Rand, text string) string {
	if text == "" {
		return "/"
	}
	at := source.IntN(len(text))
	switch source.IntN(3) {
	case 0:
		return text[:at]
	case 1:
		return text[:at] + text[at/2:]
	default:
		return text[:at] + string(rune(source.IntN(256))) + text[at:]
	}
}
