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
	practitioner := `"treatment_plan":{"practitioner_id":"` + b.practitioner + `"}`
	for name, test := range map[string]struct {
		patient *treatmentplans.LinkPatient
		body    string
		created int
	}{
		"no patient":    {nil, `{` + practitioner + `}`, 0},
		"known patient": {&treatmentplans.LinkPatient{Email: "jane.doe@example.org"}, `{` + practitioner + `,"patient":{"email":"jane.doe@example.org"}}`, 0},
		"new patient": {&treatmentplans.LinkPatient{
			Email: "new@example.com", FirstName: "New", LastName: "Example", DateOfBirth: api.Date{Year: 1980, Month: 2, Day: 29},
			Gender: clinic.X, MobileNumber: "+15555550155", Discount: 5, SendWelcomeEmail: api.Value(false),
		}, `{` + practitioner + `,"patient":{"email":"new@example.com","first_name":"New","last_name":"Example","date_of_birth":"1980-02-29",
			"gender":"x","mobile_number":"+15555550155","discount":5,"send_welcome_email":false}}`, 1},
	} {
		patients := len(b.Patients.All())
		link, err := b.DynamicLinks.Create(t.Context(), treatmentplans.NewDynamicLink{PractitionerID: b.practitioner, Patient: test.patient})
		require.NoError(t, err, name)
		assert.JSONEq(t, test.body, b.sent.String(), name)
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

// Whether the practitioner may be left out is the platform's to say.
func TestCreateDynamicLinkWithoutPractitioner(t *testing.T) {
	t.Parallel()
	b := start(t)
	_, err := b.DynamicLinks.Create(t.Context(), treatmentplans.NewDynamicLink{})
	assert.NotErrorIs(t, err, api.ErrNotSent)
	assert.JSONEq(t, `{"treatment_plan":{}}`, b.sent.String())
	_, err = b.DynamicLinks.Create(t.Context(), treatmentplans.NewDynamicLink{Patient: &treatmentplans.LinkPatient{Email: "jane.doe@example.org"}})
	assert.NotErrorIs(t, err, api.ErrNotSent)
	assert.JSONEq(t, `{"treatment_plan":{},"patient":{"email":"jane.doe@example.org"}}`, b.sent.String())
}
