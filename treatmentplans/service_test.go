package treatmentplans_test

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/resourcetest"
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

func TestCreateIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	before := b.Plans.All()
	for name, plan := range map[string]treatmentplans.NewPlan{
		"unknown practitioner": {PractitionerID: unknown, Recommendations: b.lines()},
		"unknown variant":      {PractitionerID: b.practitioner, Recommendations: []treatmentplans.Recommendation{{VariantID: unknown, UnitsToPurchase: 1}}},
		"no units":             {PractitionerID: b.practitioner, Recommendations: []treatmentplans.Recommendation{{VariantID: b.variant}}},
		"cancelled at once":    {PractitionerID: b.practitioner, Recommendations: b.lines(), State: treatmentplans.StateCancelled},
	} {
		created, err := b.Create(t.Context(), b.patient, plan)
		assert.Nil(t, created, name)
		resourcetest.RequireRefused(t, err, http.StatusUnprocessableEntity, api.ErrInvalid)
	}
	assert.Equal(t, before, b.Plans.All())
}

// An update replaces the recommendations and leaves alone what it does not name.
func TestUpdate(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.plan(t, treatmentplans.StateActive).ID
	body := `{"recommendations":[{"variant_id":"` + b.variant + `","refill":false,"units_to_purchase":2}]`
	for _, test := range []struct {
		update treatmentplans.PlanUpdate
		body   string
		change func(*model.Plan)
	}{
		{treatmentplans.PlanUpdate{}, `}`, func(*model.Plan) {}},
		{treatmentplans.PlanUpdate{PersonalMessage: api.Value("Changed")}, `,"personal_message":"Changed"}`,
			func(p *model.Plan) { p.PersonalMessage = "Changed" }},
		{treatmentplans.PlanUpdate{PersonalMessage: api.Null[string]()}, `,"personal_message":null}`,
			func(p *model.Plan) { p.PersonalMessage = "" }},
		{treatmentplans.PlanUpdate{Metadata: api.Value(clinic.Metadata{ID: "ehr-9"})}, `,"metadata":{"id":"ehr-9"}}`,
			func(p *model.Plan) { p.MetadataID = "ehr-9" }},
	} {
		want, _ := b.Plans.Get(id)
		test.change(&want)
		test.update.Recommendations = b.lines()
		updated, err := b.Update(t.Context(), id, test.update)
		require.NoError(t, err)
		assert.JSONEq(t, body+test.body, b.sent.String())
		held, _ := b.Plans.Get(id)
		want.UpdatedAt = held.UpdatedAt
		assert.Equal(t, want, held, test.body)
		b.requirePlan(t, *updated)
	}
	b.Journal().CheckNoUnexpected(t)
}

// The states have one way through: draft, active, cancelled. Every other move is
// refused and changes nothing.
func TestStates(t *testing.T) {
	t.Parallel()
	b := start(t)
	moves := map[string]func(ctx context.Context, id string, options ...api.RequestOption) (*treatmentplans.Plan, error){
		"activate": b.Activate, "cancel": b.Cancel,
	}
	for _, test := range []struct {
		from treatmentplans.State
		move string
		to   treatmentplans.State // empty where it is refused
	}{
		{treatmentplans.StateDraft, "activate", treatmentplans.StateActive},
		{treatmentplans.StateDraft, "cancel", ""},
		{treatmentplans.StateActive, "activate", ""},
		{treatmentplans.StateActive, "cancel", treatmentplans.StateCancelled},
		{treatmentplans.StateCancelled, "activate", ""},
		{treatmentplans.StateCancelled, "cancel", ""},
	} {
		id := b.planIn(t, test.from)
		before, _ := b.Plans.Get(id)
		got, err := moves[test.move](t.Context(), id)
		assert.Empty(t, b.sent.String(), "the path says it all")
		if test.to == "" {
			resourcetest.RequireRefused(t, err, http.StatusUnprocessableEntity, api.ErrInvalid)
			held, _ := b.Plans.Get(id)
			assert.Equal(t, before, held)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, test.to, got.State)
		assert.Equal(t, test.to == treatmentplans.StateCancelled, len(got.Recommendations) == 0, "a cancelled plan is empty")
		b.requirePlan(t, *got)
	}
}

// planIn creates a plan and brings it into a state.
func (b *bench) planIn(t *testing.T, state treatmentplans.State) string {
	t.Helper()
	if state != treatmentplans.StateCancelled {
		return b.plan(t, state).ID
	}
	id := b.plan(t, treatmentplans.StateActive).ID
	_, err := b.Cancel(t.Context(), id)
	require.NoError(t, err)
	return id
}

func TestUpdateOfACancelledPlanIsRefused(t *testing.T) {
	t.Parallel()
	b := start(t)
	_, err := b.Update(t.Context(), b.planIn(t, treatmentplans.StateCancelled), treatmentplans.PlanUpdate{Recommendations: b.lines()})
	resourcetest.RequireRefused(t, err, http.StatusUnprocessableEntity, api.ErrInvalid)
}

func TestInOfficeCheckout(t *testing.T) {
	t.Parallel()
	b := start(t)
	checkout, err := b.InOfficeCheckout(t.Context(), b.plan(t, treatmentplans.StateActive).ID)
	require.NoError(t, err)
	assert.Contains(t, checkout.URL, "http")
	assert.Equal(t, []model.Line{{VariantID: b.variant, Quantity: 2}}, b.Patients.Cart(b.patient))
	_, err = b.InOfficeCheckout(t.Context(), b.plan(t, treatmentplans.StateDraft).ID)
	resourcetest.RequireRefused(t, err, http.StatusUnprocessableEntity, api.ErrInvalid)
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
	for _, test := range []struct {
		sortBy treatmentplans.Sort
		order  api.SortOrder
		want   []string
	}{
		{"", "", made},
		{treatmentplans.ByCreatedAt, api.Ascending, made},
		{treatmentplans.ByCreatedAt, api.Descending, []string{made[2], made[1], made[0]}},
		{treatmentplans.ByUpdatedAt, "", []string{made[1], made[2], made[0]}},
		{treatmentplans.ByUpdatedAt, api.Descending, []string{made[0], made[2], made[1]}},
	} {
		plans := resourcetest.Walk(t, 2, func(p api.Paging) treatmentplans.ListOptions {
			return treatmentplans.ListOptions{SortBy: test.sortBy, Order: test.order, Paging: p}
		}, b.list, b.pages, b.all)
		assert.Equal(t, test.want, resourcetest.IDs(plans, func(p treatmentplans.PlanSummary) string { return p.ID }))
		b.requireSummaries(t, plans)
	}
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

func (b *bench) list(ctx context.Context, o treatmentplans.ListOptions, options ...api.RequestOption) (*api.Page[treatmentplans.PlanSummary], error) {
	return b.List(ctx, b.patient, o, options...)
}

func (b *bench) pages(ctx context.Context, o treatmentplans.ListOptions, options ...api.RequestOption) iter.Seq2[*api.Page[treatmentplans.PlanSummary], error] {
	return b.Pages(ctx, b.patient, o, options...)
}

func (b *bench) all(ctx context.Context, o treatmentplans.ListOptions, options ...api.RequestOption) iter.Seq2[treatmentplans.PlanSummary, error] {
	return b.All(ctx, b.patient, o, options...)
}

// Plans from outside the API are history, which needs another scope.
func TestHistoryNeedsItsScope(t *testing.T) {
	t.Parallel()
	b := start(t)
	client := b.Client(model.User{}).WithTokenSource(b.TokenSource(model.User{}, "clinic:read", "patients:read"))
	held := b.Plans.All()
	outside := held[slices.IndexFunc(held, func(p model.Plan) bool { return p.Outside })]
	_, err := client.TreatmentPlans.Get(t.Context(), outside.ID)
	require.ErrorIs(t, err, api.ErrForbidden)
	page, err := client.TreatmentPlans.List(t.Context(), outside.PatientID, treatmentplans.ListOptions{})
	require.NoError(t, err)
	assert.Empty(t, page.Items)
	_, err = client.TreatmentPlans.Cancel(t.Context(), held[0].ID)
	resourcetest.RequireRefused(t, err, http.StatusForbidden, api.ErrForbidden)
}
