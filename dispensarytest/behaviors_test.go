package dispensarytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

func TestBehaviorChoicesAreDescribed(t *testing.T) {
	t.Parallel()
	var names []string
	fake := New(t, WithInMemory())
	for _, s := range behavior.Choices() {
		names = append(names, s.Name)
		assert.NotEmpty(t, s.Section, s.Name)
		assert.NotEmpty(t, s.Why, s.Name)
		assert.Greater(t, len(s.Variants), 1, s.Name)
		assert.Contains(t, fake.Behaviors(), s.Variants[0])
		for _, r := range s.Variants {
			assert.NotEmpty(t, r.Meaning(), s.Name)
		}
	}
	assert.True(t, slices.IsSorted(names))
	assert.Len(t, slices.Compact(names), len(fake.Behaviors()))
	_, err := Start(WithBehavior("default-page=25"))
	require.ErrorContains(t, err, `did you mean "default-page-size"?`)
	_, err = Start(WithBehavior("default-page-size=7"))
	require.ErrorContains(t, err, "has no variant \"7\", only 25, 20, 2")
	require.Error(t, fake.SetBehavior("x=y"))
}

// A file overrides earlier choices, and later choices override the file.
func TestBehaviorsFileFollowsOptionOrder(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "behaviors.json")
	require.NoError(t, os.WriteFile(name, []byte("\ufeff"+`{"version":1,"behaviors":["default-page-size=2","refresh-rotation=grace"]}`), 0o600))
	fake := New(t, WithInMemory(), WithBehavior(behavior.DefaultPageSize20, behavior.ExpiresInString), WithBehaviorsFile(name), WithBehavior(behavior.RefreshRotationImmediate))
	assert.Subset(t, fake.Behaviors(), []behavior.Variant{behavior.DefaultPageSize2, behavior.ExpiresInString, behavior.RefreshRotationImmediate})
}

// behaving runs a check under one behavior.
func behaving(t *testing.T, behavior behavior.Variant, check func(b *browser), opts ...Option) {
	t.Run(string(behavior), func(t *testing.T) {
		t.Parallel()
		check(start(t, append([]Option{WithInMemory(), WithClock(frozen()), WithBehavior(behavior)}, opts...)...))
	})
}

// Package probe detects every behavior that a sandbox shows, in platforms with random
// behaviors. This test covers the other behaviors, and one that the probe checks in one
// operation only.
func TestUnprobedBehaviorsTakeEffect(t *testing.T) {
	t.Parallel()
	behaving(t, behavior.UnknownFieldsRejected, rejectsUnknownFields)
	behaving(t, behavior.RateLimit5000In5m, func(b *browser) {
		assert.Equal(b.t, 5000, b.fake.Faults()[0].Fault.Limit)
		require.NoError(b.t, b.fake.SetBehavior("rate-limit=off"))
		assert.Empty(b.t, b.fake.Faults())
	})
	behaving(t, behavior.WebhookEnvelopeEventPayload, func(b *browser) {
		hook := newReceiver(nil)
		activate(b.t, b.fake)
		require.NoError(b.t, b.fake.Webhooks.RegisterHandler(hook))
		b.place()
		b.fake.Clock.Advance(0)
		var sent map[string]any
		require.NoError(b.t, json.Unmarshal([]byte(hook.all()[0].body), &sent))
		assert.Equal(b.t, []string{"event_payload"}, keysOf(sent))
		_, genuine := b.verified(hook.all()[0])
		assert.True(b.t, genuine)
	})
	behaving(t, behavior.ClinicKeyHeaderAlways, func(b *browser) {
		b.get("/clinic/patients").rejected(401, "The clinic key is missing")
		b.key = b.fake.ClinicKey()
		b.get("/clinic/patients").ok(200)
	})
}

// rejectsUnknownFields sends an unknown field to every operation with a body, at the top level
// and nested.
func rejectsUnknownFields(b *browser) {
	all := exemplars(b.t, b)
	world := bytesOf(b.fake.store.World)
	for _, e := range all {
		if e.op.Method == http.MethodGet {
			continue
		}
		body, _ := e.body.(map[string]any)
		b.send(e.op.Method, e.path, merged(body, "colour", "red")).rejected(422, `"Unknown field: colour"`)
	}
	line := map[string]any{"variant_id": b.fake.Products.All()[0].VariantIDs[0], "units_to_purchase": 1, "dosage": map[string]any{"amounts": "1"}}
	b.send("PATCH", "/clinic/treatment_plans/"+b.fake.Plans.All()[0].ID, map[string]any{"recommendations": []any{line}}).rejected(422, "recommendations[0].dosage.amounts")
	b.send("POST", "/clinic/dynamic_links/treatment_plans", map[string]any{
		"treatment_plan": map[string]any{"practitioner_id": b.fake.Practitioners.All()[0].ID}, "patient": map[string]any{"email": "a@example.org", "name": "A"},
	}).rejected(422, "Unknown field: patient.name")
	assert.Equal(b.t, world, bytesOf(b.fake.store.World), "a rejection changes nothing")
	b.send("POST", "/clinic/patients", map[string]any{"first_name": "A", "last_name": "B", "email": "a@example.org"}).ok(201, "patient")
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x", "token_type_hint": "access_token"})).ok(200)
}

// responsesTo returns the platform's responses under a behavior for each operation: to a valid
// request, to a request without the scope, and to an invalid one. Each request meets the same
// state of the platform.
func responsesTo(t *testing.T, behavior behavior.Variant) map[string][]string {
	b := start(t, WithInMemory(), WithClock(frozen()))
	all, narrow := exemplars(t, b), b.with("catalog:read")
	snap := b.fake.state()
	require.NoError(t, b.fake.SetBehavior(behavior))
	responses := map[string][]string{}
	for id, e := range all {
		body, _ := e.body.(map[string]any)
		wrong := merged(body, "colour", "red")
		sep := "?"
		if strings.Contains(e.path, "?") {
			sep = "&"
		}
		for _, send := range []func() response{
			func() response { return b.send(e.op.Method, e.path, e.body) },
			func() response { return narrow.send(e.op.Method, e.path, e.body) },
			func() response { return b.send(e.op.Method, e.path+sep+"page[size]=0", wrong) },
			func() response { return b.send(e.op.Method, e.path+sep+"page[size]=101&page[number]=9", wrong) },
		} {
			got := send()
			responses[id] = append(responses[id], fmt.Sprint(got.status, got.text))
			if e.op.Method != http.MethodGet {
				b.fake.restore(snap)
			}
		}
	}
	return responses
}

// A choice lists every operation whose responses it changes.
func TestBehaviorsChangeOnlyListedOperations(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	usual := responsesTo(t, "probe=off")
	for _, s := range behavior.Choices() {
		for _, r := range s.Variants[1:] {
			t.Run(string(r), func(t *testing.T) {
				t.Parallel()
				for id, responses := range responsesTo(t, r) {
					if !slices.Contains(s.Operations, id) {
						assert.Equal(t, usual[id], responses, id)
					}
				}
			})
		}
	}
}

// nullable are the fields of a variant that the API lists as "or null".
var nullable = []string{"units", "unit_of_measure", "upc", "supplier_sku", "status"}

// An integration that fails on a null must encounter one in a test. For products on sale, only
// non-primary variants contain nulls.
func TestWorldContainsEveryNull(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]model.WorldSize{"small": {}, "large": {Products: 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, WithInMemory(), WithTuning(Tuning{WorldSize: size}))
			nulls, values, listed := map[string]int{}, map[string]int{}, map[string]int{}
			for _, p := range b.fake.Products.All() {
				product := b.get("/catalog/products/"+p.ID).object(200, "product")
				count(product, "description_html", nulls, values)
				onSale := product["status"] != model.VariantUnavailable
				for _, v := range product["variants"].([]any) {
					v := v.(map[string]any)
					for _, field := range nullable {
						count(v, field, nulls, values)
						if v["primary"] == true && v[field] == nil {
							listed[field]++
							assert.False(t, onSale, "%s: %s is null", p.Name, field)
						}
					}
				}
			}
			for _, field := range append(nullable, "description_html") {
				assert.Positive(t, nulls[field], field)
				assert.Greater(t, values[field], nulls[field], field)
			}
			for _, field := range nullable {
				assert.Positive(t, listed[field], "no list contains a null: %s", field)
			}
			assert.Len(t, b.get("/catalog/brands?available=true").column("brands", "id"), len(brandsOf(b.fake))-1)
		})
	}
}

func count(object map[string]any, field string, nulls, values map[string]int) {
	if value, there := object[field]; there && value == nil {
		nulls[field]++
	} else if there {
		values[field]++
	}
}

func TestUpdateVariantClearsFields(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	product := b.fake.Products.All()[0]
	id := product.VariantIDs[0]
	change := model.VariantUpdate{Units: new(0), UnitOfMeasure: new(""), UPC: new(""), SupplierSKU: new(""), Status: new("")}
	_, event, err := b.fake.Products.UpdateVariant(id, change)
	require.NoError(t, err)
	assert.Equal(t, model.EventProductUpdated, event.Type)
	variant := b.get("/catalog/variants/"+id).object(200, "variant")
	for _, field := range nullable {
		assert.Contains(t, variant, field)
		assert.Nil(t, variant[field], field)
	}
	assert.Equal(t, "n/a", variant["availability"])

	change = model.VariantUpdate{Units: new(30), UnitOfMeasure: new("drops"), UPC: new("850000010036"), SupplierSKU: new("X1"), Status: new(model.VariantAvailable)}
	_, _, err = b.fake.Products.UpdateVariant(id, change)
	require.NoError(t, err)
	variant = b.get("/catalog/variants/"+id).object(200, "variant")
	assert.EqualValues(t, 30, variant["units"])
	assert.Equal(t, []any{"drops", "850000010036", "X1", "available"}, []any{variant["unit_of_measure"], variant["upc"], variant["supplier_sku"], variant["status"]})

	_, _, err = b.fake.Products.Describe(product.ID, "")
	require.NoError(t, err)
	assert.Nil(t, b.get("/catalog/products/"+product.ID).object(200, "product")["description_html"])
}

// The platform reproduces the API's irregular formats, and only in the same places.
func TestFieldFormatsMatchAPI(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	all := exemplars(t, b)
	jane := b.get(all["patients.get"].path).object(200, "patient")
	link := b.get(all["dynamic_links.get"].path).object(200, "dynamic_links", "patient")
	assert.Equal(t, true, jane["text_message_notification"])
	assert.EqualValues(t, 1, link["text_message_notification"], "a number in place of a boolean")

	order := b.get(all["orders.get"].path).object(200, "order")
	for _, total := range []string{"msrp_total", "item_total", "payment_total"} {
		assert.Regexp(t, `^\d+\.\d\d$`, order[total], "a decimal string")
	}
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}-05:00$`, order["completed_at"], "the time has an offset")
	plan := b.get(all["treatment_plans.get"].path).object(200, "treatment_plan")
	assert.Regexp(t, `^\d{4}-\d\d-\d\d$`, plan["available_at"], "a date")
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, plan["created_at"], "in UTC")

	// A dosage has different field names in a plan and in an event.
	_, event, err := b.fake.Plans.Update(plan["id"].(string), model.PlanUpdate{})
	assert.NoError(t, err)
	inEvent := b.get("/events/"+event.ID).ok(200, "event", "data", "treatment_plan", "recommendations").([]any)[0].(map[string]any)["dosage"].(map[string]any)
	inPlan := plan["recommendations"].([]any)[0].(map[string]any)["dosage"].(map[string]any)
	for name, other := range map[string]string{"amount": "recommended_amount", "frequency": "recommended_frequency", "duration": "recommended_duration", "format": "format"} {
		assert.Equal(t, inPlan[name], inEvent[other], name)
		assert.Contains(t, inEvent, other)
	}
}
