package clinic_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// The data of an entry is the record, as its own endpoint returns it.
func TestMetadataEntryDecodesRecord(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t)
	ctx, s, metadata := t.Context(), f.Client.Clinic, clinic.Metadata{ID: "ehr/7 & more"}
	_, err := s.Patients.Update(ctx, f.Patient, clinic.PatientUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	_, err = s.Practitioners.Update(ctx, f.Practitioner, clinic.PractitionerUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	_, err = s.Staff.Update(ctx, f.Staff, clinic.StaffMemberUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	_, err = f.Client.TreatmentPlans.Update(ctx, f.Plan, treatmentplans.PlanUpdate{Recommendations: f.Recommendations(), Metadata: api.Value(metadata)})
	require.NoError(t, err)
	entry := func(kind clinic.MetadataType) clinic.MetadataEntry {
		entries := resourcetest.Collect(t, s.Metadata.All(ctx, clinic.MetadataListOptions{ID: metadata.ID, Type: kind}))
		require.Len(t, entries, 1, kind)
		assert.Equal(t, metadata.ID, entries[0].ID)
		assert.Equal(t, kind, entries[0].Type)
		return entries[0]
	}
	decodes(t, entry(clinic.MetadataTypePatient), f.Patient, s.Patients.Get)
	decodes(t, entry(clinic.MetadataTypePractitioner), f.Practitioner, s.Practitioners.Get)
	decodes(t, entry(clinic.MetadataTypeStaff), f.Staff, s.Staff.Get)
	decodes(t, entry(clinic.MetadataTypeTreatmentPlan), f.Plan, f.Client.TreatmentPlans.Get)
	_, err = s.Metadata.List(ctx, clinic.MetadataListOptions{ID: "ehr-8", Type: "order"})
	require.ErrorIs(t, err, api.ErrValidation)
}

func decodes[T any](t *testing.T, entry clinic.MetadataEntry, id string, get func(context.Context, string, ...api.RequestOption) (*T, error)) {
	t.Helper()
	want, err := get(t.Context(), id)
	require.NoError(t, err)
	var got T
	require.NoError(t, entry.Decode(&got))
	assert.Equal(t, *want, got)
}

func TestMetadataDecodeFailsWithoutTelling(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"id":"marked"`, `"marked"`, ``} {
		err := clinic.MetadataEntry{Data: json.RawMessage(data)}.Decode(new(clinic.Patient))
		require.ErrorIs(t, err, api.ErrBadResponse)
		assert.NotContains(t, err.Error(), "marked")
	}
}
