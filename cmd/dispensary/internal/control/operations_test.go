package control

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// receiver registers a webhook endpoint. It responds with the stored status, at first 200.
func (r *fixture) receiver() *atomic.Int64 {
	r.t.Helper()
	status := new(atomic.Int64)
	status.Store(200)
	challenge := r.fake.Application().ChallengeToken
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		w.WriteHeader(int(status.Load()))
		_ = json.NewEncoder(w).Encode(map[string]string{"challenge": challenge})
	}))
	r.t.Cleanup(server.Close)
	r.ok("PUT", "/webhook", `{"url":"`+server.URL+`"}`)
	r.ok("POST", "/tokens", `{}`)
	return status
}

func TestFailedWebhookIsRetried(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	assert.Empty(t, r.ok("GET", "/webhook", ""))
	status := r.receiver()
	status.Store(500)
	event := r.ok("POST", "/patients/"+r.patient()+"/orders", "", "event", "id").(string)
	r.ok("POST", "/clock/advance", `{"by":"0s"}`)
	assert.Contains(t, r.ok("GET", "/events/"+event+"/delivery?timeout=10s", "", "reason"), "attempt 1 failed")

	status.Store(200)
	now := r.ok("POST", "/clock/advance", `{"by":"1m"}`, "now")
	assert.Equal(t, "2026-03-02T09:01:00Z", now)
	assert.Equal(t, true, r.ok("GET", "/events/"+event+"/delivery", "", "delivered"))
	deliveries := r.ok("GET", "/deliveries?event_id="+event, "", "deliveries").([]any)
	require.Len(t, deliveries, 1)
	attempts := deliveries[0].(map[string]any)["attempts"].([]any)
	require.Len(t, attempts, 2)
	assert.Equal(t, 500.0, attempts[0].(map[string]any)["status"])
	assert.Contains(t, attempts[1].(map[string]any)["request_body"], event)
	assert.Empty(t, r.ok("GET", "/deliveries?event_id=x", "", "deliveries"))
}

func TestDisabledEndpointIsEnabled(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	status := r.receiver()
	status.Store(http.StatusGone)
	r.ok("POST", "/patients", "")
	r.ok("POST", "/clock/advance", `{"to":"2026-03-02T09:00:01Z"}`)
	assert.Equal(t, true, r.ok("GET", "/webhook", "", "disabled"))
	r.ok("POST", "/patients", "")
	skips := r.ok("GET", "/skips", "", "skips").([]any)
	require.Len(t, skips, 1)
	assert.Contains(t, skips[0].(map[string]any)["reason"], "410")
	assert.Equal(t, false, r.ok("POST", "/webhook/enable", "", "disabled"))
}

func TestTokensExpireAndAreRevoked(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen(), dispensarytest.WithScopes("patients:read"))
	user := r.fake.Users()[1]
	token := r.ok("POST", "/tokens", `{"user":"`+user.Email+`","scopes":["patients:read"]}`).(map[string]any)
	assert.Equal(t, user.ID, token["user_id"])
	assert.Equal(t, "2026-03-02T11:00:00Z", token["expires_at"])
	assert.NotContains(t, token, "password")
	r.ok("POST", "/tokens/expire", `{"access_token":"`+token["access_token"].(string)+`"}`)
	r.ok("POST", "/tokens", `{"user":"`+user.ID+`"}`)
	r.ok("POST", "/clock/advance", `{"by":"1m"}`)
	rejections := func() (all []any) {
		for _, row := range r.ok("GET", "/credentials", "", "credentials").([]any) {
			all = append(all, row.(map[string]any)["kind"].(string)+" "+row.(map[string]any)["rejection"].(string))
		}
		return all
	}
	assert.Equal(t, []any{"access_token expired", "access_token ", "refresh_token ", "refresh_token "}, rejections())
	assert.Contains(t, r.ok("POST", "/application/scopes", `{"scopes":["clinic:read"]}`, "scopes"), "clinic:read")
	assert.Equal(t, []any{"access_token invalidated", "access_token invalidated", "refresh_token invalidated", "refresh_token invalidated"}, rejections())
	kept, ended := r.fake.Users()[0], r.fake.Users()[1]
	for _, u := range []model.User{kept, ended} {
		r.ok("POST", "/tokens", `{"user":"`+u.Email+`"}`)
	}
	r.ok("POST", "/tokens/revoke", `{"user":"`+ended.Email+`"}`)
	for _, row := range r.ok("GET", "/credentials", "", "credentials").([]any)[2:4] {
		row := row.(map[string]any)
		assert.Equal(t, map[string]any{kept.ID: "", ended.ID: "revoked"}[row["user_id"].(string)], row["rejection"])
	}
	r.rejected("POST", "/tokens/revoke", `{"user":"x@example.com"}`, 404, "no user")
	r.ok("POST", "/tokens/invalidate", "")
	assert.NotContains(t, rejections(), "access_token ")
}

func TestUserActionsCreateEvents(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	patient := r.ok("POST", "/patients", `{"first_name":"Robin","email":"robin@example.com"}`, "patient", "id").(string)
	assert.Equal(t, "x", r.ok("PATCH", "/patients/"+patient, `{"gender":"x","text_notification":true}`, "patient", "gender"))
	assert.Equal(t, "x", r.only("/patients?id="+patient, "patients")["gender"])
	plan := r.ok("POST", "/patients/"+patient+"/plans", `{"draft":true,"personal_message":"Hello"}`).(map[string]any)
	assert.Nil(t, plan["event"])
	id := plan["plan"].(map[string]any)["id"].(string)
	line := plan["plan"].(map[string]any)["recommendations"].([]any)[0].(map[string]any)
	variant := line["variant_id"].(string)
	assert.Nil(t, line["dosage"])
	assert.Equal(t, model.EventTreatmentPlanUpdated, r.ok("PATCH", "/plans/"+id, `{"personal_message":"Hello again"}`, "event", "type"))
	assert.Equal(t, model.EventTreatmentPlanCreated, r.ok("POST", "/plans/"+id+"/activate", "", "event", "type"))
	assert.Equal(t, "twice", r.ok("PATCH", "/plans/"+id+"/recommendation",
		`{"variant_id":"`+variant+`","units_to_purchase":2,"dosage":{"frequency":"twice"}}`, "event", "data", "treatment_plan", "recommendations").([]any)[0].(map[string]any)["dosage"].(map[string]any)["recommended_frequency"])
	order := r.ok("POST", "/patients/"+patient+"/orders", `{"plan_ids":["`+id+`"]}`, "order").(map[string]any)
	assert.Regexp(t, `^\d+\.\d\d$`, order["payment_total"])
	assert.Equal(t, "1.00", r.ok("POST", "/orders/"+order["id"].(string)+"/refund", `{"amount":"1"}`, "order", "refunded"))
	assert.Equal(t, "cancelled", r.ok("POST", "/plans/"+id+"/cancel", "", "plan", "state"))
	assert.Equal(t, "cancelled", r.only("/plans?id="+id, "plans")["state"])
	r.rejected("POST", "/plans/"+id+"/cancel", "", 409, "is cancelled")
	assert.Equal(t, order["number"], r.only("/orders?id="+order["id"].(string), "orders")["number"])
}

func TestCatalogAndClinicChange(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	product := r.ok("POST", "/products", `{"name":"Magnesium","variants":[{"units":30,"msrp":"12.50"}]}`, "product").(map[string]any)
	id, variant := product["id"].(string), product["variant_ids"].([]any)[0].(string)
	assert.Equal(t, "Zinc", r.ok("PATCH", "/products/"+id, `{"name":"Zinc"}`, "product", "name"))
	assert.Equal(t, "<p>", r.ok("PUT", "/products/"+id+"/description", `{"description_html":"<p>"}`, "product", "description_html"))
	assert.Equal(t, "backordered", r.ok("PATCH", "/variants/"+variant, `{"status":"backordered"}`, "variant", "status"))
	assert.Equal(t, "Zinc", r.only("/products?id="+id, "products")["name"])
	key := r.ok("GET", "/clinic_keys", "", "clinic_keys").([]any)[0].(string)
	assert.Equal(t, model.EventClinicKeyRevoked, r.ok("POST", "/clinic_keys/"+key+"/revoke", "", "event", "type"))
	assert.Equal(t, model.EventClinicKeyActivated, r.ok("POST", "/clinic_keys/"+key+"/activate", "", "event", "type"))
	for _, name := range []string{"patients", "plans", "orders", "products", "events"} {
		assert.NotNil(t, r.ok("GET", "/"+name+"?limit=1", "", name), name)
	}
	assert.Len(t, r.ok("GET", "/products?limit=2", "", "products"), 2)
}

func TestJournalListsAndChecksRequests(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	token := r.fake.Tokens.Issue(model.User{}).AccessToken
	request, err := http.NewRequestWithContext(t.Context(), "GET", r.fake.Site().BaseURL+"/clinic?pages=1", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	r.send(request)
	row := r.ok("GET", "/journal", "", "requests").([]any)[0].(map[string]any)
	assert.Equal(t, "clinic.get", row["operation"])
	assert.Equal(t, []any{[]any{"clinic:read"}, true}, []any{row["scopes"], row["granted"]})
	assert.Len(t, r.ok("GET", "/journal?operation=clinic.get", "", "requests"), 1)
	assert.Empty(t, r.ok("GET", "/journal?operation=patients.get", "", "requests"))

	assert.Contains(t, r.ok("POST", "/journal/checks/no_unexpected", "", "findings").([]any)[0], `unknown query parameter "pages"`)
	assert.Contains(t, r.ok("POST", "/journal/checks/backoff_honored", "", "findings").([]any)[0], "wait")
	assert.Equal(t, true, r.ok("POST", "/journal/checks/no_n_plus_one", `{"at_most":1}`, "passed"))
	assert.Equal(t, false, r.ok("POST", "/journal/checks/no_leak", `{"texts":["`+token+`"]}`, "passed"))
	assert.Equal(t, true, r.ok("POST", "/journal/checks/no_leak", `{"texts":["nothing"]}`, "passed"))
	r.ok("DELETE", "/journal", "")
	assert.Empty(t, r.ok("GET", "/journal", "", "requests"))
}

func TestFaultsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	id := r.ok("POST", "/faults", `{"effect":"error_status","operation":"clinic.get","status":503,"times":1,"delay":"1s"}`, "id").(string)
	assert.Equal(t, "1s", r.ok("GET", "/faults", "", "faults").([]any)[0].(map[string]any)["fault"].(map[string]any)["delay"])
	assert.Equal(t, id, r.ok("DELETE", "/faults/"+id, "", "id"))
	r.ok("POST", "/faults", `{"effect":"drop_after_commit","chance":0.5}`)
	r.ok("DELETE", "/faults", "")
	assert.Empty(t, r.ok("GET", "/faults", "", "faults"))
}

func TestBehaviorsAreSetAndReset(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	assert.Equal(t, "before-each", r.ok("PUT", "/behaviors/probe", `{"variant":"before-each"}`, "variant"))
	assert.Contains(t, r.fake.Behaviors(), behavior.ProbeBeforeEach)
	assert.Len(t, r.ok("GET", "/behaviors", "", "behaviors"), len(behavior.Choices()))
	r.rejected("PUT", "/behaviors/probe", `{"variant":"never"}`, 422, `no variant "never"`)
	r.rejected("PUT", "/behaviors/prob", `{"variant":"off"}`, 422, `did you mean "probe"?`)
	r.ok("POST", "/reset", "")
	assert.Contains(t, r.fake.Behaviors(), behavior.Variant("probe=off"))
}

func TestResetRestoresInitialState(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	before := len(r.fake.Patients.All())
	r.receiver()
	r.ok("POST", "/patients", "")
	r.ok("POST", "/faults", `{"effect":"drop_after_commit"}`)
	r.ok("POST", "/clock/advance", `{"by":"1h"}`)
	r.ok("POST", "/reset", "")
	assert.Len(t, r.fake.Patients.All(), before)
	for _, list := range []string{"events", "deliveries", "skips", "credentials", "faults"} {
		assert.Empty(t, r.ok("GET", "/"+list, "", list), list)
	}
	assert.Empty(t, r.ok("GET", "/webhook", ""))
	assert.Equal(t, "2026-03-02T10:00:00Z", r.ok("GET", "/clock", "", "now"))
	assert.Equal(t, true, r.ok("GET", "/clock", "", "frozen"))
	assert.Nil(t, r.ok("GET", "/clock", "", "next"))
}

// Clients can read a list page by page in both orders.
func TestListsReturnPages(t *testing.T) {
	t.Parallel()
	r := newFixture(t, dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Patients: 700}}))
	for _, way := range []string{"ASC", "DESC"} {
		var ids []string
		for after := ""; ; {
			query := "/patients?limit=300&order_by=" + way + "&after=" + after
			for _, row := range r.ok("GET", query, "", "patients").([]any) {
				ids = append(ids, row.(map[string]any)["id"].(string))
			}
			assert.Equal(t, 700.0, r.ok("GET", query, "", "total"))
			next, more := r.ok("GET", query, "", "next").(string)
			if !more {
				break
			}
			after = next
		}
		patients := r.fake.Patients.All()
		require.Len(t, ids, len(patients))
		for n, p := range patients {
			if way == "DESC" {
				n = len(ids) - 1 - n
			}
			assert.Equal(t, p.ID, ids[n])
		}
	}
	r.rejected("GET", "/patients?order_by=up", "", 422, "ASC or DESC")
	r.rejected("GET", "/patients?after=x", "", 404, "the row x")
	patient := r.fake.Patients.All()[3]
	assert.Len(t, r.ok("GET", "/patients?email="+patient.Email, "", "patients"), 1)
}

func TestPagesAreSmall(t *testing.T) {
	t.Parallel()
	r := newFixture(t, frozen())
	r.receiver()
	for n := range 120 {
		r.ok("PUT", "/products/"+r.fake.Products.All()[n%44].ID+"/description", fmt.Sprintf(`{"description_html":"%01000d"}`, n))
	}
	r.ok("POST", "/clock/advance", `{"by":"0s"}`)
	for _, path := range []string{"/events", "/deliveries", "/products", "/journal"} {
		status, body := New(r.fake, Options{}).Call(t.Context(), http.MethodGet, path+"?limit=1000", nil)
		require.Equal(t, 200, status)
		assert.LessOrEqual(t, len(body), 100_000, path)
	}
	assert.Len(t, r.fake.Webhooks.Deliveries(), 120)
	assert.Equal(t, 120.0, r.ok("GET", "/deliveries?event_type=product.description.updated", "", "total"))
	assert.Equal(t, 0.0, r.ok("GET", "/deliveries?delivered=false", "", "total"))
}
