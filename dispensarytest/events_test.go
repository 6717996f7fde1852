package dispensarytest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
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
	_, old, err := b.fake.Patients.Register(model.NewPatient{})
	require.NoError(t, err)
	b.fake.Clock().Advance(48 * time.Hour)
	_, fresh, err := b.fake.Patients.Edit(b.fake.Patients.All()[0].ID, model.PatientChange{FirstName: new("J")})
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

// wireTimes are created_at of an event and updated_at of the plan in it, as they are sent.
func wireTimes(t *testing.T, e model.Event) (created, updated string) {
	t.Helper()
	var data struct {
		Plan struct {
			UpdatedAt string `json:"updated_at"`
		} `json:"treatment_plan"`
	}
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return view.Time(e.CreatedAt), data.Plan.UpdatedAt
}

// Ordered by time, a plan's cancellation comes after its creation, even where the clock
// stands still.
func TestEventsOfOneObjectHaveTimesOfTheirOwn(t *testing.T) {
	t.Parallel()
	clock := frozen()
	b, hook := start(t, WithClock(clock)), listen(t, nil)
	b.subscribe(hook, model.EventTypes()...)
	now := clock.Now()
	plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.NewPlan{})
	require.NoError(t, err)
	_, edited, err := b.fake.Plans.Update(plan.ID, model.PlanChange{PersonalMessage: new("Hello")})
	require.NoError(t, err)
	gone, cancelled, err := b.fake.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	for i, e := range []model.Event{created, edited, cancelled} {
		at, updated := wireTimes(t, e)
		assert.Equal(t, view.Time(now.Add(time.Duration(i)*time.Millisecond)), at)
		assert.Equal(t, at, updated, "the data says the same")
		assert.Equal(t, plan.ID, e.ObjectID)
	}
	assert.Equal(t, cancelled.CreatedAt, gone.UpdatedAt)
	assert.Equal(t, view.Time(gone.UpdatedAt), b.get("/clinic/treatment_plans/"+plan.ID).ok(200, "treatment_plan", "updated_at"))

	_, other, err := b.fake.Plans.Create(b.fake.Patients.All()[1].ID, model.NewPlan{})
	require.NoError(t, err)
	assert.Equal(t, now, other.CreatedAt, "another object's events have the clock's time")
	for _, e := range []model.Event{created, edited, cancelled, other} {
		require.NoError(t, b.fake.Webhooks.WaitDelivered(t.Context(), e.ID), "the clock does not have to move")
	}
	assert.Len(t, hook.all(), 4)

	clock.Advance(2 * time.Millisecond) // still not later than the last event
	_, late, err := b.fake.Plans.Update(other.ObjectID, model.PlanChange{PersonalMessage: new("Hello")})
	require.NoError(t, err)
	assert.Equal(t, clock.Now(), late.CreatedAt)
}

// Times are apart where they are cut, not only where they are kept.
func TestEventTimesAreApartOnTheWire(t *testing.T) {
	t.Parallel()
	clock := FrozenClock(time.Date(2026, 3, 2, 9, 0, 0, 100_000, time.UTC))
	b := start(t, WithInMemory(), WithClock(clock))
	patient := b.fake.Patients.All()[0].ID
	var last model.Event
	for range 4 {
		_, e, err := b.fake.Patients.Edit(patient, model.PatientChange{FirstName: new("Ada")})
		require.NoError(t, err)
		assert.Less(t, view.Time(last.CreatedAt), view.Time(e.CreatedAt))
		last = e
		clock.Advance(300 * time.Microsecond)
	}
	key := b.fake.ClinicKey()
	revoked, err := b.fake.Clinics.RevokeKey(key)
	require.NoError(t, err)
	activated, err := b.fake.Clinics.ActivateKey(key)
	require.NoError(t, err)
	assert.Less(t, view.Time(revoked.CreatedAt), view.Time(activated.CreatedAt))
}

// A snapshot knows what an event was about.
func TestEventTimesAreApartAfterASnapshotWasLoaded(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.NewPlan{})
	require.NoError(t, err)
	_, cancelled, err := restarted(t, b.fake).Plans.Cancel(plan.ID)
	require.NoError(t, err)
	assert.Equal(t, created.CreatedAt.Add(time.Millisecond), cancelled.CreatedAt)
}

func TestReadingsOfEventTimes(t *testing.T) {
	t.Parallel()
	behaving(t, EventTimesAsTheyFall, func(b *browser) {
		plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.NewPlan{})
		require.NoError(b.t, err)
		_, cancelled, err := b.fake.Plans.Cancel(plan.ID)
		require.NoError(b.t, err)
		assert.Equal(b.t, created.CreatedAt, cancelled.CreatedAt)
	})
}

// API sections: "Clinic", "Authentication" 9, "Webhooks" 6.
func TestFirstKeyActivatesIntegration(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	hook := newReceiver(nil)
	hook.secret = b.fake.Application().ChallengeToken
	require.NoError(t, b.fake.Webhooks.RegisterHandler(hook))
	_, early := b.place()
	assert.Nil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	require.ErrorContains(t, b.wait(early), "no integration of the clinic is active: send a request with its clinic key")
	assert.Empty(t, b.get("/events/clinic_keys").ok(200, "events"))

	b.key = b.fake.ClinicKey()
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.fake.Clock().Advance(0)
	require.Len(t, hook.all(), 1, "the activation itself is sent")
	assert.Contains(t, hook.all()[0].body, model.ClinicKeyActivated)
	assert.Equal(t, []any{model.ClinicKeyActivated}, b.get("/events/clinic_keys").column("events", "type"))
	_, late := b.place()
	require.NoError(t, b.wait(late))
	assert.Len(t, b.get("/events/orders").column("events", "id"), 2, "both can be read")
}

func TestActivationBehaviorSwitches(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	require.NoError(t, b.fake.Webhooks.RegisterHandler(newReceiver(nil)))
	require.NoError(t, b.fake.SetBehavior(IntegrationActivationFromTheStart))
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	_, err := b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.ErrorIs(t, err, model.ErrState)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	b.key = b.fake.ClinicKey()
	b.get("/clinic").ok(200)
	assert.Empty(t, b.get("/events/clinic_keys").ok(200, "events"), "the first key makes no event")

	require.NoError(t, b.fake.SetBehavior(IntegrationActivationFirstKey))
	b.key = ""
	assert.Nil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	_, err = b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.NoError(t, err)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 3, "the activation and the order")
}

func TestVariablesContainKeyOfOnlyClinic(t *testing.T) {
	t.Parallel()
	one := New(t, WithInMemory())
	assert.Equal(t, one.ClinicKey(), one.Variables()["DISPENSARY_US_SANDBOX_CLINIC_KEY"])
	two := New(t, WithInMemory(), WithWorldSize(model.WorldSize{Clinics: 2}))
	assert.NotContains(t, two.Variables(), "DISPENSARY_US_SANDBOX_CLINIC_KEY")
}
