package contract_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/contract"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// The client has two ways to remove a metadata id. Both keep the contract, and the fake
// removes the id.
func TestClearingCallsKeepContract(t *testing.T) {
	t.Parallel()
	marked, null := dispensary.Value(clinic.Metadata{ID: "ehr-9"}), dispensary.Null[clinic.Metadata]()
	for name, empty := range map[string]dispensary.Optional[clinic.Metadata]{"value": dispensary.Value(clinic.Metadata{}), "null": null} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			recorder := &contract.Recorder{}
			s.Through(func(base http.RoundTripper) http.RoundTripper { recorder.Base = base; return recorder })
			for _, metadata := range []dispensary.Optional[clinic.Metadata]{marked, empty} {
				want := ""
				if metadata == marked {
					want = "ehr-9"
				}
				for _, got := range updateMetadata(t.Context(), t, s, metadata) {
					assert.Equal(t, want, got.ID)
				}
			}
			_, err := s.Client.Clinic.Patients.Update(t.Context(), s.Patient, clinic.PatientUpdate{Discount: dispensary.Null[float64]()})
			require.NoError(t, err)
			keepsContract(t, s.Platform, recorder)
		})
	}
}

// updateMetadata sets the metadata of each kind of record, and returns what they have then.
func updateMetadata(ctx context.Context, t *testing.T, s *calltest.Fixture, metadata dispensary.Optional[clinic.Metadata]) []clinic.Metadata {
	t.Helper()
	patient, err := s.Client.Clinic.Patients.Update(ctx, s.Patient, clinic.PatientUpdate{Metadata: metadata})
	require.NoError(t, err)
	practitioner, err := s.Client.Clinic.Practitioners.Update(ctx, s.Practitioner, clinic.PractitionerUpdate{Metadata: metadata})
	require.NoError(t, err)
	staff, err := s.Client.Clinic.Staff.Update(ctx, s.Staff, clinic.StaffMemberUpdate{Metadata: metadata})
	require.NoError(t, err)
	plan, err := s.Client.TreatmentPlans.Update(ctx, s.Plan, treatmentplans.PlanUpdate{Recommendations: s.Recommendations(), Metadata: metadata})
	require.NoError(t, err)
	return []clinic.Metadata{patient.Metadata, practitioner.Metadata, staff.Metadata, plan.Metadata}
}
