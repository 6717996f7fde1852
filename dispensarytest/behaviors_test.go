package dispensarytest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestBehaviorChoicesAreDescribed(t *testing.T) {
	t.Parallel()
	var names []string
	fake := New(t, WithInMemory())
	for _, s := range BehaviorChoices() {
		names = append(names, s.Name)
		assert.NotEmpty(t, s.Section, s.Name)
		assert.NotEmpty(t, s.Why, s.Name)
		assert.Greater(t, len(s.Variants), 1, s.Name)
		assert.Contains(t, fake.Behaviors(), s.Variants[0].Behavior)
		for _, r := range s.Variants {
			assert.NotEmpty(t, r.Meaning, s.Name)
		}
	}
	assert.True(t, slices.IsSorted(names))
	assert.Len(t, slices.Compact(names), len(fake.Behaviors()))
	_, err := Start(WithBehavior("default-page=25"))
	require.ErrorContains(t, err, `did you mean "default-page-size"?`)
	_, err = Start(WithBehavior(Behavior("default-page-size=7")))
	require.ErrorContains(t, err, "has no variant \"7\", only 25, 20, 2")
	require.Error(t, fake.SetBehavior("x=y"))
}

// A file wins over what was chosen before it, and loses to what is chosen after it.
func TestWithBehaviorsFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "behaviors.json")
	require.NoError(t, os.WriteFile(name, []byte("\ufeff"+`{"version":1,"behaviors":["default-page-size=2","refresh-rotation=grace"]}`), 0o600))
	fake := New(t, WithInMemory(), WithBehavior(DefaultPageSize20, ExpiresInString), WithBehaviorsFile(name), WithBehavior(RefreshRotationImmediate))
	assert.Subset(t, fake.Behaviors(), []Behavior{DefaultPageSize2, ExpiresInString, RefreshRotationImmediate})
}

// behaving runs a check under one behavior.
func behaving(t *testing.T, behavior Behavior, check func(b *browser), opts ...Option) {
	t.Run(string(behavior), func(t *testing.T) {
		t.Parallel()
		check(start(t, append([]Option{WithInMemory(), WithClock(frozen()), WithBehavior(behavior)}, opts...)...))
	})
}

func TestBehaviorOfAnswers(t *testing.T) {
	t.Parallel()
	behaving(t, SuccessStatusAlways200, func(b *browser) {
		b.send("POST", "/clinic/patients", map[string]any{"first_name": "A", "last_name": "B", "email": "a@example.org"}).ok(200, "patient")
	})
	for reading, want := range map[string]string{
		"text": `{"error":"Not Found"}`, "status-and-text": `{"status":404,"error":"Not Found"}`,
		"coded-list": `{"errors":[{"code":"not_found","message":"Not Found"}]}`,
	} {
		behaving(t, "error-shape="+Behavior(reading), func(b *browser) {
			assert.JSONEq(b.t, want, b.get("/clinic/patients/x").text)
			b.post("/oauth/token", map[string]any{}).refused(400, "error_description")
		})
	}
	behaving(t, ValidationStatus400, func(b *browser) {
		b.send("POST", "/clinic/patients", map[string]any{}).refused(400, `{"error":["`)
		b.send("PATCH", "/clinic/treatment_plans/"+b.fake.Plans.All()[0].ID+"/activate", nil).refused(422, "not draft")
	})
	behaving(t, WrongStateStatus409, func(b *browser) {
		b.send("PATCH", "/clinic/treatment_plans/"+b.fake.Plans.All()[0].ID+"/activate", nil).refused(409, "not draft")
	})
	behaving(t, MissingScopeStatus404, func(b *browser) { b.with("catalog:read").get("/clinic").refused(404, "scope") })
	behaving(t, PlainHTTPStatus400, func(b *browser) {
		resp, err := b.fake.HTTPClient().Get("http" + b.fake.BaseURL()[len("https"):] + "/clinic")
		require.NoError(b.t, err)
		decoded(b.t, resp).refused(400, "HTTPS")
	})
	behaving(t, EmptyValuesAbsent, func(b *browser) {
		alex := b.fake.Patients.All()[3]
		assert.NotContains(b.t, b.get("/clinic/patients/"+alex.ID).object(200, "patient"), "mobile_number")
		assert.Contains(b.t, b.get("/clinic/patients").object(200, "meta"), "next_page")
	})
	behaving(t, UnknownParametersRefused, func(b *browser) {
		b.get("/clinic/patients?pagesize=3").refused(422, "pagesize")
		b.get("/clinic/patients?page[size]=3").ok(200)
	})
	behaving(t, UnknownFieldsRefused, refusesUnknownFields)
	behaving(t, RateLimit5000In5m, func(b *browser) {
		assert.Equal(b.t, 5000, b.fake.Faults()[0].Fault().Limit)
		require.NoError(b.t, b.fake.SetBehavior(RateLimitOff))
		assert.Empty(b.t, b.fake.Faults())
	})
}

// refusesUnknownFields sends an unknown field to every operation that takes a body, at
// the top and further down.
func refusesUnknownFields(b *browser) {
	all := exemplars(b.t.(*testing.T), b)
	world := bytesOf(partsOf(b.fake).store.World)
	for _, e := range all {
		if e.op.Method == http.MethodGet {
			continue
		}
		body, _ := e.body.(map[string]any)
		b.send(e.op.Method, e.path, merged(body, "colour", "red")).refused(422, `"Unknown field: colour"`)
	}
	line := map[string]any{"variant_id": b.fake.Products.All()[0].VariantIDs[0], "units_to_purchase": 1, "dosage": map[string]any{"amounts": "1"}}
	b.send("PATCH", "/clinic/treatment_plans/"+b.fake.Plans.All()[0].ID, map[string]any{"recommendations": []any{line}}).refused(422, "recommendations[0].dosage.amounts")
	b.send("POST", "/clinic/dynamic_links/treatment_plans", map[string]any{
		"treatment_plan": map[string]any{"practitioner_id": b.fake.Clinics.Practitioners()[0].ID}, "patient": map[string]any{"email": "a@example.org", "name": "A"},
	}).refused(422, "Unknown field: patient.name")
	assert.Equal(b.t, world, bytesOf(partsOf(b.fake).store.World), "nothing was changed")
	b.send("POST", "/clinic/patients", map[string]any{"first_name": "A", "last_name": "B", "email": "a@example.org"}).ok(201, "patient")
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x", "token_type_hint": "access_token"})).ok(200)
}

func TestBehaviorOfLists(t *testing.T) {
	t.Parallel()
	behaving(t, DefaultPageSize2, func(b *browser) {
		assert.Len(b.t, b.get("/clinic/patients").column("patients", "id"), 2)
	})
	behaving(t, OversizedPageRefused, func(b *browser) {
		b.get("/clinic/patients?page[size]=101").refused(422, "above 100")
		b.get("/clinic/patients?page[size]=100").ok(200)
	})
	behaving(t, PageBeyondLastNotFound, func(b *browser) {
		b.get("/clinic/patients?page[number]=2").refused(404, "")
		b.get("/clinic/search/patients?query=nobody").ok(200)
	})
	behaving(t, UnsortedListsNewestFirst, func(b *browser) {
		assert.Equal(b.t, b.fake.Patients.All()[4].ID, b.get("/clinic/patients").column("patients", "id")[0])
		assert.Equal(b.t, b.fake.Products.All()[43].ID, b.get("/catalog/products").column("products", "id")[0])
		assert.Equal(b.t, b.fake.Orders.All()[0].ID, b.get("/clinic/orders?sort_by=completed_at").column("orders", "id")[0])
	})
	behaving(t, ArrayFiltersAny, func(b *browser) {
		p := b.fake.Products.All()
		query := "/catalog/search/products?page[size]=100&ingredient_ids[]=" + p[0].IngredientIDs[0] + "&ingredient_ids[]=" + p[1].IngredientIDs[0]
		assert.Subset(b.t, b.get(query).column("products", "id"), []any{p[0].ID, p[1].ID})
		b.get("/catalog/search/products").ok(200)
	})
	behaving(t, MetadataTypeRequired, func(b *browser) {
		b.get("/clinic/metadata?id=ehr-1001").refused(422, "type")
		b.get("/clinic/metadata?id=ehr-1001&type=patient").ok(200)
	})
}

func TestBehaviorOfPlans(t *testing.T) {
	t.Parallel()
	draft := func(b *browser) (path string) {
		plan, _, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.NewPlan{Draft: true})
		require.NoError(b.t, err)
		return "/clinic/treatment_plans/" + plan.ID
	}
	line := func(b *browser) map[string]any {
		return map[string]any{"recommendations": []any{map[string]any{"variant_id": b.fake.Products.All()[0].VariantIDs[0], "units_to_purchase": 1}}}
	}
	behaving(t, DraftCancellationAllowed, func(b *browser) {
		b.send("PATCH", draft(b)+"/cancel", nil).ok(200)
	})
	behaving(t, CancelledPlanUpdateAllowed, func(b *browser) {
		path := "/clinic/treatment_plans/" + b.fake.Plans.All()[0].ID
		b.send("PATCH", path+"/cancel", nil).ok(200)
		assert.Equal(b.t, "cancelled", b.send("PATCH", path, line(b)).ok(200, "treatment_plan", "state"))
	})
	behaving(t, DraftUpdateActivates, func(b *browser) {
		assert.Equal(b.t, "active", b.send("PATCH", draft(b), line(b)).ok(200, "treatment_plan", "state"))
	})
	behaving(t, CheckoutStateNotCancelled, func(b *browser) {
		b.send("POST", draft(b)+"/in_office_checkout", nil).ok(201)
	})
	behaving(t, DraftInvitationPresent, func(b *browser) {
		assert.NotEmpty(b.t, b.get(draft(b)).ok(200, "treatment_plan", "invitation_url"))
	})
	behaving(t, PlanCreatedEventOnCreation, func(b *browser) {
		plan, e, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.NewPlan{Draft: true})
		require.NoError(b.t, err)
		assert.Equal(b.t, model.TreatmentPlanCreated, e.Type)
		_, e, err = b.fake.Plans.Activate(plan.ID)
		require.NoError(b.t, err)
		assert.Equal(b.t, model.TreatmentPlanUpdated, e.Type)
	})
}

func TestBehaviorOfWebhooks(t *testing.T) {
	t.Parallel()
	behaving(t, UnwrappedEventDataNone, func(b *browser) {
		_, e := b.place()
		assert.Equal(b.t, []string{"order"}, keysOf(dataOf(b.t.(*testing.T), e)))
	})
	behaving(t, WebhookEnvelopeEventPayload, func(b *browser) {
		hook := newReceiver(nil)
		activate(b.t, b.fake)
		require.NoError(b.t, b.fake.Webhooks.RegisterHandler(hook))
		b.place()
		b.fake.Clock().Advance(0)
		var sent map[string]any
		require.NoError(b.t, json.Unmarshal([]byte(hook.all()[0].body), &sent))
		assert.Equal(b.t, []string{"event_payload"}, keysOf(sent))
		_, genuine := b.verified(hook.all()[0])
		assert.True(b.t, genuine)
	})
	behaving(t, DeliveryLogAttempt, func(b *browser) {
		activate(b.t, b.fake)
		require.NoError(b.t, b.fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
		b.place()
		b.fake.Clock().Advance(time.Minute)
		assert.Equal(b.t, []any{1.0, 2.0}, b.get("/webhooks/deliveries").column("webhook_deliveries", "attempt_number"))
		rows := b.get("/webhooks/deliveries").column("webhook_deliveries", "next_attempt_at")
		assert.Equal(b.t, "2026-03-02T09:01:00.000Z", rows[0])
	})
	behaving(t, UnansweredStatusZero, func(b *browser) {
		activate(b.t, b.fake)
		require.NoError(b.t, b.fake.Webhooks.Register("https://nowhere.example.com/hook"))
		b.place()
		b.fake.Clock().Advance(0)
		assert.Equal(b.t, []any{0.0}, b.get("/webhooks/deliveries").column("webhook_deliveries", "response_status"))
	})
	behaving(t, RetryScheduleDoubling, func(b *browser) {
		activate(b.t, b.fake)
		require.NoError(b.t, b.fake.Webhooks.RegisterHandler(http.NotFoundHandler()))
		_, e := b.place()
		b.fake.Clock().Advance(20 * time.Hour)
		attempts := b.fake.Webhooks.Deliveries()[0].Attempts
		require.Len(b.t, attempts, 6)
		assert.Equal(b.t, 155*time.Minute, attempts[5].At.Sub(e.CreatedAt))
	})
}

func TestReadingsOfTokens(t *testing.T) {
	t.Parallel()
	behaving(t, AccessTokenAfterRefreshEnded, func(b *browser) {
		pair := b.fake.Tokens.Issue(model.User{})
		b.token = pair.AccessToken
		b.get("/clinic").ok(200)
		fresh := b.renew(pair.RefreshToken).object(200, "oauth")
		b.get("/clinic").refused(401, "expired")
		b.token = fresh["access_token"].(string)
		b.get("/clinic").ok(200)
	})
	behaving(t, UnknownTokenRevocationRefused, func(b *browser) {
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x"})).refused(400, "invalid_request")
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": b.token})).ok(200)
	})
	behaving(t, RefreshTokenRevocationUnknown, func(b *browser) {
		pair := b.fake.Tokens.Issue(model.User{})
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.RefreshToken})).ok(200)
		b.renew(pair.RefreshToken).ok(200)
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.AccessToken})).ok(200)
		b.renew(pair.RefreshToken).refused(400, "invalid_grant")
	})
	behaving(t, RevocationReachPair, revokesPairs)
	behaving(t, ExpiresInString, func(b *browser) {
		assert.Equal(b.t, "7200", b.renew(b.fake.Tokens.Issue(model.User{}).RefreshToken).ok(200, "oauth", "expires_in"))
	})
	behaving(t, ClinicKeyHeaderClinicEndpoint, func(b *browser) {
		b.get("/clinic").refused(401, "The clinic key is missing")
		b.get("/clinic/patients").ok(200)
	})
	behaving(t, ClinicKeyHeaderAlways, func(b *browser) {
		b.get("/clinic/patients").refused(401, "The clinic key is missing")
		b.key = b.fake.ClinicKey()
		b.get("/clinic/patients").ok(200)
	})
}

func revokesPairs(b *browser) {
	pair := b.fake.Tokens.Issue(model.User{})
	fresh := b.renew(pair.RefreshToken).object(200, "oauth")["access_token"].(string)
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": fresh})).ok(200)
	b.renew(pair.RefreshToken).refused(400, "invalid_grant")
	b.token = fresh
	b.get("/clinic").refused(401, "revoked")
	b.token = pair.AccessToken
	b.get("/clinic").ok(200)
	other := b.fake.Tokens.Issue(model.User{})
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": other.RefreshToken})).ok(200)
	b.token = other.AccessToken
	b.get("/clinic").refused(401, "revoked")
}
