package treatmentplans_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestDynamicLinkOfAPlan(t *testing.T) {
	t.Parallel()
	b := start(t)
	jane := b.Patients.All()[0]
	b.patient = jane.ID
	for _, state := range []treatmentplans.State{treatmentplans.StateDraft, treatmentplans.StateActive} {
		plan := b.plan(t, state)
		link, err := b.DynamicLinks.Get(t.Context(), plan.ID)
		require.NoError(t, err)
		assert.Contains(t, link.RedirectURL, plan.ID)
		assert.Equal(t, treatmentplans.PlanSummary{ID: plan.ID, State: state, AvailableAt: plan.AvailableAt}, link.TreatmentPlan)
		require.NotNil(t, link.Patient)
		assert.EqualExportedValues(t, clinic.Patient{
			ID: jane.ID, FirstName: jane.FirstName, LastName: jane.LastName, Email: jane.Email,
			DateOfBirth: api.Date{Year: 1984, Month: 3, Day: 12}, Gender: clinic.Female, TotalDiscount: 10, MobileNumber: jane.MobileNumber,
			TextMessageNotification: true, // which the platform writes as 1 here
		}, *link.Patient)
	}
}

func TestNewDynamicLink(t *testing.T) {
	t.Parallel()
	b := start(t)
	before := b.Plans.All()
	address, err := b.DynamicLinks.EmptyPlanURL(t.Context())
	require.NoError(t, err)
	assert.Contains(t, address, "/plans/new")
	assert.Equal(t, before, b.Plans.All(), "nothing is created")
	b.Tokens.InvalidateAll()
	_, err = b.DynamicLinks.EmptyPlanURL(t.Context())
	require.ErrorIs(t, err, api.ErrUnauthorized)
}

func TestCreateDynamicLink(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, test := range map[string]struct {
		patient *treatmentplans.LinkPatient
		created int
	}{
		"no patient":    {nil, 0},
		"known patient": {&treatmentplans.LinkPatient{Email: "jane.doe@example.org"}, 0},
		"new patient":   {&treatmentplans.LinkPatient{Email: "new@example.com", FirstName: "New", LastName: "Example"}, 1},
	} {
		patients := len(b.Patients.All())
		link, err := b.DynamicLinks.Create(t.Context(), treatmentplans.NewDynamicLink{PractitionerID: b.practitioner, Patient: test.patient})
		require.NoError(t, err, name)
		assert.Len(t, b.Patients.All(), patients+test.created, name)
		assert.Equal(t, treatmentplans.StateDraft, link.TreatmentPlan.State, name)
		assert.True(t, link.TreatmentPlan.AvailableAt.IsZero(), name)
		held, known := b.Plans.Get(link.TreatmentPlan.ID)
		require.True(t, known, name)
		assert.Equal(t, b.practitioner, held.PractitionerID, name)
		assert.Equal(t, test.patient != nil, link.Patient != nil, name)
		if link.Patient != nil {
			assert.Equal(t, held.PatientID, link.Patient.ID, name)
			assert.Equal(t, test.patient.Email, link.Patient.Email, name)
		}
	}
	b.Journal().CheckNoUnexpected(t)
}
