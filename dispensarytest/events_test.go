package dispensarytest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// dataOf decodes an event's data.
func dataOf(t *testing.T, e model.Event) map[string]any {
	t.Helper()
	var data map[string]any
	require.NoError(t, json.Unmarshal(e.Data, &data))
	return data
}

// In order of time, a plan's cancellation follows its creation, even on a frozen clock.
func TestObjectEventsHaveDistinctTimes(t *testing.T) {
	t.Parallel()
	clock := frozen()
	b, hook := start(t, WithClock(clock)), listen(t, nil)
	b.subscribe(hook, model.EventTypes()...)
	now := clock.Now()
	plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{})
	require.NoError(t, err)
	_, edited, err := b.fake.Plans.Update(plan.ID, model.PlanUpdate{PersonalMessage: new("Hello")})
	require.NoError(t, err)
	gone, canceled, err := b.fake.Plans.Cancel(plan.ID)
	require.NoError(t, err)
	for i, e := range []model.Event{created, edited, canceled} {
		at := view.Time(now.Add(time.Duration(i) * time.Millisecond))
		assert.Equal(t, at, view.Time(e.CreatedAt))
		assert.Equal(t, at, dataOf(t, e)["treatment_plan"].(map[string]any)["updated_at"], "the data has the same time")
		assert.Equal(t, plan.ID, e.ObjectID)
	}
	assert.Equal(t, canceled.CreatedAt, gone.UpdatedAt)
	assert.Equal(t, view.Time(gone.UpdatedAt), b.get("/clinic/treatment_plans/"+plan.ID).ok(200, "treatment_plan", "updated_at"))

	_, other, err := b.fake.Plans.Create(b.fake.Patients.All()[1].ID, model.PlanCreate{})
	require.NoError(t, err)
	assert.Equal(t, now, other.CreatedAt, "another object's events have the clock's time")
	for _, e := range []model.Event{created, edited, canceled, other} {
		require.NoError(t, b.fake.Webhooks.WaitDelivered(t.Context(), e.ID), "the clock does not have to move")
	}
	assert.Len(t, hook.all(), 4)

	clock.Advance(2 * time.Millisecond) // not later than the last event
	_, late, err := b.fake.Plans.Update(other.ObjectID, model.PlanUpdate{PersonalMessage: new("Hello")})
	require.NoError(t, err)
	assert.Equal(t, clock.Now(), late.CreatedAt)
}

// A snapshot stores the object of an event.
func TestSnapshotKeepsEventTimesApart(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{})
	require.NoError(t, err)
	_, canceled, err := restarted(t, b.fake).Plans.Cancel(plan.ID)
	require.NoError(t, err)
	assert.Equal(t, created.CreatedAt.Add(time.Millisecond), canceled.CreatedAt)
}

func TestEventTimesFollowBehavior(t *testing.T) {
	t.Parallel()
	behaving(t, behavior.EventTimesAsTheyFall, func(b *browser) {
		plan, created, err := b.fake.Plans.Create(b.fake.Patients.All()[0].ID, model.PlanCreate{})
		require.NoError(b.t, err)
		_, canceled, err := b.fake.Plans.Cancel(plan.ID)
		require.NoError(b.t, err)
		assert.Equal(b.t, created.CreatedAt, canceled.CreatedAt)
	})
}

func TestActivationFollowsBehavior(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	require.NoError(t, b.fake.Webhooks.RegisterHandler(newReceiver(nil)))
	require.NoError(t, b.fake.SetBehavior(behavior.IntegrationActivationFromTheStart))
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	_, err := b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.ErrorIs(t, err, model.ErrState)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	b.key = b.fake.ClinicKey()
	b.get("/clinic").ok(200)
	assert.Empty(t, b.get("/events/clinic_keys").ok(200, "events"), "the first request with the key emits no event")

	require.NoError(t, b.fake.SetBehavior("integration-activation=first-key"))
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
	assert.Contains(t, one.Variables(), "DISPENSARY_US_SANDBOX_CLINIC_KEY="+one.ClinicKey())
	two := New(t, WithInMemory(), WithTuning(Tuning{WorldSize: model.WorldSize{Clinics: 2}}))
	assert.NotContains(t, strings.Join(two.Variables(), "\n"), "CLINIC_KEY")
}
