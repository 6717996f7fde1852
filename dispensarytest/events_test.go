package dispensarytest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// data decodes an event's data.
func dataOf(t *testing.T, e model.Event) map[string]any {
	t.Helper()
	var data map[string]any
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return data
}

// Every action makes the event of its type, whose data is wrapped under its kind but for
// two types.
func TestPlatformActionsMakeEvents(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	events := b.oneOfEach()
	assert.Equal(t, []string{
		model.PatientCreated, model.PatientUpdated, model.TreatmentPlanCreated, model.TreatmentPlanUpdated, model.TreatmentPlanRecommendation,
		model.OrderPlaced, model.ProductCreated, model.ProductUpdated, model.ProductDescriptionUpdated, model.ClinicKeyRevoked, model.ClinicKeyActivated,
	}, b.kinds(0))
	for kind, e := range events {
		data := dataOf(t, e)
		if kind == model.OrderPlaced || kind == model.ProductCreated {
			assert.Contains(t, data, "id", kind)
			continue
		}
		wrapper, _, _ := strings.Cut(kind, ".")
		assert.Equal(t, []string{wrapper}, keysOf(data), kind)
	}
	_, e, err := b.fake.Plans.Cancel(b.fake.Plans.All()[0].ID)
	require.NoError(t, err)
	assert.Equal(t, model.TreatmentPlanUpdated, e.Type)
	assert.Equal(t, "cancelled", dataOf(t, e)["treatment_plan"].(map[string]any)["state"])
}

func TestEventsAreReadForThirtyDays(t *testing.T) {
	t.Parallel()
	b := start(t, WithClock(frozen()))
	p := b.fake
	_, old, err := p.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	b.fake.Clock().Advance(48 * time.Hour)
	_, fresh, err := p.Patients.Edit(p.Patients.All()[0].ID, model.PatientChange{FirstName: new("J")})
	require.NoError(t, err)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken

	item := b.get("/events/patients").ok(200, "events").([]any)[0]
	assert.ElementsMatch(t, []string{"id", "type", "created_at", "clinic_id"}, keysOf(item))
	assert.ElementsMatch(t, []string{"id", "type", "created_at", "clinic_id", "data"}, keysOf(b.get("/events/"+old.ID).ok(200, "event")))
	for query, want := range map[string][]any{
		"":                                   {old.ID, fresh.ID},
		"?order_by=DESC":                     {fresh.ID, old.ID},
		"?sort_by=event_type&order_by=ASC":   {old.ID, fresh.ID},
		"?event_type=patient.updated":        {fresh.ID},
		"?created_at=2026-03-02":             {old.ID},
		"?created_at=%3E2026-03-02":          {fresh.ID},
		"?created_at=%3C2026-03-04":          {old.ID},
		"?created_at=2026-03-01..2026-03-04": {old.ID, fresh.ID},
		"?created_at=2026-03-05":             {},
	} {
		assert.Equal(t, want, b.get("/events/patients"+query).column("events", "id"), query)
	}
	for _, query := range []string{"?created_at=yesterday", "?created_at=%3E", "?created_at=..", "?sort_by=id", "?event_type=order.placed", "?order_by=up"} {
		b.get("/events/patients"+query).refused(422, "must be")
	}
	b.with("catalog:read").get("/events/"+old.ID).refused(403, "patients:read")

	b.fake.Clock().Advance(28 * 24 * time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	b.get("/events/" + old.ID).ok(200)
	b.fake.Clock().Advance(time.Nanosecond)
	b.get("/events/"+old.ID).refused(404, "Not Found")
	assert.Equal(t, []any{fresh.ID}, b.get("/events/patients").column("events", "id"))
}
