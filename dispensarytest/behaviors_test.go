package dispensarytest

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
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
	behaving(t, behavior.UnknownFieldsRejected, refusesUnknownFields)
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
		b.get("/clinic/patients").refused(401, "The clinic key is missing")
		b.key = b.fake.ClinicKey()
		b.get("/clinic/patients").ok(200)
	})
}

// refusesUnknownFields sends an unknown field to every operation with a body, at the top level
// and nested.
func refusesUnknownFields(b *browser) {
	all := exemplars(b.t.(*testing.T), b)
	world := bytesOf(b.fake.store.World)
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
		"treatment_plan": map[string]any{"practitioner_id": b.fake.Practitioners.All()[0].ID}, "patient": map[string]any{"email": "a@example.org", "name": "A"},
	}).refused(422, "Unknown field: patient.name")
	assert.Equal(b.t, world, bytesOf(b.fake.store.World), "a rejection changes nothing")
	b.send("POST", "/clinic/patients", map[string]any{"first_name": "A", "last_name": "B", "email": "a@example.org"}).ok(201, "patient")
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x", "token_type_hint": "access_token"})).ok(200)
}
