package treatmentplans_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// plan creates a plan in the given state.
func (b *bench) plan(t *testing.T, state treatmentplans.State) *treatmentplans.Plan {
	t.Helper()
	plan, err := b.Create(t.Context(), b.patient, treatmentplans.NewPlan{
		PractitionerID: b.practitioner, State: state, Recommendations: b.lines(), PersonalMessage: "Take care",
		Metadata: clinic.Metadata{ID: "ehr-7"},
	})
	require.NoError(t, err)
	return plan
}

func (b *bench) lines() []treatmentplans.Recommendation {
	return []treatmentplans.Recommendation{{VariantID: b.variant, UnitsToPurchase: 2}}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	b := start(t)
	for state, want := range map[treatmentplans.State]treatmentplans.State{
		"": treatmentplans.StateActive, treatmentplans.StateActive: treatmentplans.StateActive, treatmentplans.StateDraft: treatmentplans.StateDraft,
	} {
		plan := b.plan(t, state)
		assert.Equal(t, want, plan.State)
		assert.Equal(t, want == treatmentplans.StateDraft, plan.AvailableAt.IsZero())
		b.requirePlan(t, *plan)
	}
	assert.Empty(t, b.Events(), "the integrator's own calls make no events")
}

// A draft is activated, an active plan is cancelled; the path says it all.
func TestStates(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.plan(t, treatmentplans.StateDraft).ID
	activated, err := b.Activate(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, treatmentplans.StateActive, activated.State)
	b.requirePlan(t, *activated)
	cancelled, err := b.Cancel(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, treatmentplans.StateCancelled, cancelled.State)
	assert.Empty(t, cancelled.Recommendations, "a cancelled plan is empty")
	b.requirePlan(t, *cancelled)
}

func TestInOfficeCheckout(t *testing.T) {
	t.Parallel()
	b := start(t)
	checkout, err := b.InOfficeCheckout(t.Context(), b.plan(t, treatmentplans.StateActive).ID)
	require.NoError(t, err)
	assert.Contains(t, checkout.URL, "http")
	assert.Equal(t, []model.Line{{VariantID: b.variant, Quantity: 2}}, b.Patients.Cart(b.patient))
}

func TestList(t *testing.T) {
	t.Parallel()
	clock := dispensarytest.FrozenClock(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	b := start(t, dispensarytest.WithClock(clock))
	var made []string
	for range 3 {
		made = append(made, b.plan(t, treatmentplans.StateActive).ID)
		clock.Advance(time.Minute)
	}
	_, err := b.Cancel(t.Context(), made[0]) // now the one that was updated last
	require.NoError(t, err)
	plans := resourcetest.WalkOf(t, 2, b.patient, func(p api.Paging) treatmentplans.ListOptions {
		return treatmentplans.ListOptions{SortBy: treatmentplans.ByUpdatedAt, Order: api.Descending, Paging: p}
	}, b.List, b.Pages, b.All)
	assert.Equal(t, []string{made[0], made[2], made[1]}, resourcetest.IDs(plans, func(p treatmentplans.PlanSummary) string { return p.ID }))
	b.requireSummaries(t, plans)
	b.Journal().CheckNoUnexpected(t)
}

// requireSummaries compares what lists return with a single plan.
func (b *bench) requireSummaries(t *testing.T, plans []treatmentplans.PlanSummary) {
	t.Helper()
	for _, listed := range plans {
		single, err := b.Get(t.Context(), listed.ID)
		require.NoError(t, err)
		assert.Equal(t, treatmentplans.PlanSummary{
			ID: single.ID, State: single.State, Patient: single.Patient, Practitioner: single.Practitioner,
			AvailableAt: single.AvailableAt, CreatedAt: single.CreatedAt, UpdatedAt: single.UpdatedAt,
		}, listed)
	}
}
