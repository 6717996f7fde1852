package clienttest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

func TestLookupReturnsRecord(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t)
	ctx, s, metadata := t.Context(), f.Client.Clinic, clinic.Metadata{ID: "ehr/7 & more"}
	patient, err := s.Patients.Update(ctx, f.Patient, clinic.PatientUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	practitioner, err := s.Practitioners.Update(ctx, f.Practitioner, clinic.PractitionerUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	member, err := s.Staff.Update(ctx, f.Staff, clinic.StaffMemberUpdate{Metadata: api.Value(metadata)})
	require.NoError(t, err)
	plan, err := f.Client.TreatmentPlans.Update(ctx, f.Plan, treatmentplans.PlanUpdate{Recommendations: f.Recommendations(), Metadata: api.Value(metadata)})
	require.NoError(t, err)

	want := map[string]any{"patients.create": patient, "practitioners.create": practitioner, "staff.create": member, "treatment_plans.create": plan}
	for kind, lookup := range lookups(f) {
		got, err := lookup(ctx, metadata.ID)
		require.NoError(t, err, kind)
		assert.Equal(t, want[kind], got, kind)
	}
}

func TestLookupOfUnknownIDIsNotFound(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t)
	for kind, lookup := range lookups(f) {
		_, err := lookup(t.Context(), "canary")
		require.ErrorIs(t, err, dispensary.ErrNotFound, kind)
		var failed *dispensary.Error
		require.ErrorAs(t, err, &failed, kind)
		assert.Equal(t, "metadata.list", failed.Operation)
		assert.Equal(t, http.StatusOK, failed.StatusCode)
		assert.NotEmpty(t, failed.RequestID)
		assert.Equal(t, 1, failed.Attempts)
		assert.Empty(t, failed.Outcome)
		assert.Equal(t, "dispensary: metadata.list GET /clinic/metadata: 200 OK: no record has the metadata id (request id "+failed.RequestID+")", err.Error())
		problem := dispensary.ProblemOf(err)
		assert.Equal(t, http.StatusNotFound, problem.Status)
		assert.NotContains(t, problem.Title, "canary")
	}
}

func TestLookupRejectsID(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t)
	f.Platform.Journal.Reset()
	for kind, lookup := range lookups(f) {
		for _, id := range []string{"", " \t", "M\xfcller-1"} {
			_, err := lookup(t.Context(), id)
			require.Error(t, err, kind)
			resourcetest.RequireUnsent(t, f.Platform, err, "metadata.list", "id")
			assert.NotContains(t, err.Error(), "ller")
		}
	}
}

func TestLookupChecksEntries(t *testing.T) {
	t.Parallel()
	const meta = `],"meta":{"current_page":1,"total_pages":1,"total_count":2}}`
	entry := func(kind, id, data string) string {
		return `{"type":"` + kind + `","id":"` + id + `","data":` + data + `}`
	}
	for name, test := range map[string]struct {
		body string
		want func(t *testing.T, p *clinic.Patient, err error)
	}{
		"other kinds and ids": {
			entry("staff", "canary", `{"id":"s1"}`) + "," + entry("patient", "other", `{"id":"p1"}`),
			func(t *testing.T, _ *clinic.Patient, err error) { assert.ErrorIs(t, err, dispensary.ErrNotFound) },
		},
		"one of two": {
			entry("staff", "canary", `{"id":"s1"}`) + "," + entry("patient", "canary", `{"id":"p1","first_name":{}}`),
			func(t *testing.T, p *clinic.Patient, err error) {
				require.NoError(t, err)
				assert.Equal(t, &clinic.Patient{ID: "p1"}, p)
			},
		},
		"several": {
			entry("patient", "canary", `{"id":"p1"}`) + "," + entry("patient", "canary", `{"id":"p2"}`),
			func(t *testing.T, _ *clinic.Patient, err error) {
				var several *api.EnsureError
				require.ErrorAs(t, err, &several)
				assert.Equal(t, api.EnsureReasonAmbiguous, several.Reason)
				assert.Equal(t, "metadata.list", several.Operation)
				assert.Equal(t, []string{"p1", "p2"}, several.IDs)
				assert.NotErrorIs(t, err, dispensary.ErrNotFound)
			},
		},
		"without an id": {
			entry("patient", "canary", `{"last_name":"canary"}`) + "," + entry("staff", "x", `{}`),
			func(t *testing.T, _ *clinic.Patient, err error) { assert.ErrorIs(t, err, api.ErrBadResponse) },
		},
		"not an object": {
			entry("patient", "canary", `"canary"`) + "," + entry("staff", "x", `{}`),
			func(t *testing.T, _ *clinic.Patient, err error) { assert.ErrorIs(t, err, api.ErrBadResponse) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := dispensary.New(sandboxSite(), dispensary.WithTokenSource(fixedToken{}), dispensary.WithTransport(
				roundTripper(func(r *http.Request) (*http.Response, error) { return respond(r, `{"metadata":[`+test.body+meta), nil }),
			))
			require.NoError(t, err)
			p, err := client.Clinic.Patients.ByMetadataID(t.Context(), "canary")
			test.want(t, p, err)
			if err != nil {
				assert.NotContains(t, err.Error(), "canary")
			}
		})
	}
}

// A call that reads a list internally captures each response.
func TestLookupCapturesResponse(t *testing.T) {
	t.Parallel()
	f := calltest.NewFixture(t)
	var response api.Response
	_, err := f.Client.Clinic.Patients.ByMetadataID(t.Context(), "ehr-1001", api.CaptureResponse(&response))
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, response.StatusCode)
	assert.NotEmpty(t, response.RequestID)
	_, created, err := f.Client.Clinic.Patients.Ensure(t.Context(), newPatient(3), api.CaptureResponse(&response))
	require.NoError(t, err)
	assert.True(t, created)
}
