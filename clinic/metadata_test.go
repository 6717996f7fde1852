package clinic_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// mark gives one record of each kind the integrator's id and returns their own.
func (b *bench) mark(t *testing.T, id string) map[clinic.MetadataType]string {
	t.Helper()
	metadata := clinic.Metadata{ID: id}
	patient, practitioner := b.Server.Patients.All()[1].ID, b.Server.Clinics.Practitioners()[0].ID
	_, err := b.Patients.Update(t.Context(), patient, clinic.PatientUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	_, err = b.Practitioners.Update(t.Context(), practitioner, clinic.PractitionerUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	staff, err := b.Staff.Create(t.Context(), clinic.NewStaffMember{Email: "desk@example.com", FirstName: "New", LastName: "Desk", Metadata: metadata})
	require.NoError(t, err)
	plan, err := b.Server.Client(model.User{}).TreatmentPlans.Create(t.Context(), patient, treatmentplans.NewPlan{
		PractitionerID: practitioner, Metadata: metadata,
		Recommendations: []treatmentplans.Recommendation{{VariantID: b.Server.Products.All()[0].VariantIDs[0], UnitsToPurchase: 1}},
	})
	require.NoError(t, err)
	return map[clinic.MetadataType]string{
		clinic.MetadataPatient: patient, clinic.MetadataPractitioner: practitioner,
		clinic.MetadataStaff: staff.ID, clinic.MetadataTreatmentPlan: plan.ID,
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	b := start(t)
	marked := b.mark(t, "ehr/7 & more")
	entries := resourcetest.Walk(t, 3, func(p api.Paging) clinic.MetadataListOptions {
		return clinic.MetadataListOptions{ID: "ehr/7 & more", Paging: p}
	}, b.Metadata.List, b.Metadata.Pages, b.Metadata.All)
	require.Len(t, entries, len(marked))
	for _, entry := range entries {
		assert.Equal(t, "ehr/7 & more", entry.ID)
		var record struct{ ID string }
		require.NoError(t, entry.Decode(&record))
		assert.Equal(t, marked[entry.Type], record.ID)
		narrowed := resourcetest.Collect(t, b.Metadata.All(t.Context(), clinic.MetadataListOptions{ID: entry.ID, Type: entry.Type}))
		require.Len(t, narrowed, 1, entry.Type)
		assert.Equal(t, entry.Type, narrowed[0].Type)
	}
	assert.Empty(t, resourcetest.Collect(t, b.Metadata.All(t.Context(), clinic.MetadataListOptions{ID: "ehr-8"})))
	_, err := b.Metadata.List(t.Context(), clinic.MetadataListOptions{ID: "ehr-8", Type: "order"})
	require.ErrorIs(t, err, api.ErrInvalid)

	// The data of an entry is the record, as its own endpoint returns it.
	found := map[clinic.MetadataType]clinic.MetadataEntry{}
	for _, entry := range entries {
		found[entry.Type] = entry
	}
	var patient clinic.Patient
	require.NoError(t, found[clinic.MetadataPatient].Decode(&patient))
	assert.EqualExportedValues(t, b.wantPatient(t, marked[clinic.MetadataPatient]), patient)
	var practitioner clinic.Practitioner
	require.NoError(t, found[clinic.MetadataPractitioner].Decode(&practitioner))
	wanted, err := b.Practitioners.Get(t.Context(), practitioner.ID)
	require.NoError(t, err)
	assert.Equal(t, *wanted, practitioner)
	var staff clinic.StaffMember
	require.NoError(t, found[clinic.MetadataStaff].Decode(&staff))
	single, err := b.Staff.Get(t.Context(), staff.ID)
	require.NoError(t, err)
	assert.Equal(t, *single, staff)
	var plan treatmentplans.Plan
	require.NoError(t, found[clinic.MetadataTreatmentPlan].Decode(&plan))
	assert.Equal(t, patient.ID, plan.Patient.ID)
	assert.Len(t, plan.Recommendations, 1)
}

func TestMetadataDecodeFailsWithoutTelling(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"id":"marked"`, `"marked"`, ``} {
		err := clinic.MetadataEntry{Data: json.RawMessage(data)}.Decode(new(clinic.Patient))
		require.ErrorIs(t, err, api.ErrBadResponse)
		assert.NotContains(t, err.Error(), "marked")
	}
}
