package clienttest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// A second call finds the record of the first, for each kind of record.
func TestSecondEnsureFindsRecord(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	for kind, ensure := range ensures(s) {
		id := clinic.Metadata{ID: "ehr-1 " + kind}
		made, created, err := ensure(t.Context(), id)
		require.NoError(t, err, kind)
		assert.True(t, created, kind)
		s.Client = s.Platform.Client(s.Platform.Users()[0]) // forgets created records
		found, created, err := ensure(t.Context(), id)
		require.NoError(t, err, kind)
		assert.False(t, created, kind)
		assert.Equal(t, made, found, kind)
		looked, err := lookups(s)[kind](t.Context(), id.ID)
		require.NoError(t, err)
		assert.Equal(t, made, looked, kind)
	}
}

// lookups returns a ByMetadataID call for each operation that Ensure calls.
func lookups(s *calltest.Fixture) map[string]func(context.Context, string) (record any, err error) {
	return map[string]func(context.Context, string) (any, error){
		"patients.create": func(ctx context.Context, id string) (any, error) {
			return s.Client.Clinic.Patients.ByMetadataID(ctx, id)
		},
		"practitioners.create": func(ctx context.Context, id string) (any, error) {
			return s.Client.Clinic.Practitioners.ByMetadataID(ctx, id)
		},
		"staff.create": func(ctx context.Context, id string) (any, error) { return s.Client.Clinic.Staff.ByMetadataID(ctx, id) },
		"treatment_plans.create": func(ctx context.Context, id string) (any, error) {
			return s.Client.TreatmentPlans.ByMetadataID(ctx, id)
		},
	}
}

// ensures returns a call for each operation that Ensure calls.
func ensures(s *calltest.Fixture) map[string]func(context.Context, clinic.Metadata) (record any, created bool, err error) {
	return map[string]func(context.Context, clinic.Metadata) (any, bool, error){
		"patients.create": func(ctx context.Context, id clinic.Metadata) (any, bool, error) {
			n := newPatient(1)
			n.Metadata = id
			return s.Client.Clinic.Patients.Ensure(ctx, n)
		},
		"practitioners.create": func(ctx context.Context, id clinic.Metadata) (any, bool, error) {
			return s.Client.Clinic.Practitioners.Ensure(ctx, clinic.PractitionerCreate{
				PractitionerTypeID: s.PractitionerType, FirstName: "P", LastName: "Example", Email: "p@example.com", Metadata: id,
			})
		},
		"staff.create": func(ctx context.Context, id clinic.Metadata) (any, bool, error) {
			return s.Client.Clinic.Staff.Ensure(ctx, clinic.StaffMemberCreate{FirstName: "S", LastName: "Example", Email: "s@example.com", Metadata: id})
		},
		"treatment_plans.create": func(ctx context.Context, id clinic.Metadata) (any, bool, error) {
			return s.Client.TreatmentPlans.Ensure(ctx, s.Patient, treatmentplans.PlanCreate{
				PractitionerID: s.Practitioner, Recommendations: s.Recommendations(), Metadata: id,
			})
		},
	}
}

func metadataOf(kind string, i int) clinic.Metadata {
	return clinic.Metadata{ID: fmt.Sprintf("ehr-%s-%d", kind, i)}
}

func newPatient(i int) clinic.PatientCreate {
	return clinic.PatientCreate{
		FirstName: "E", LastName: "Example", Email: fmt.Sprintf("patient-%d@example.com", i),
		SendWelcomeEmail: dispensary.Value(false), Metadata: metadataOf("patient", i),
	}
}

func TestEnsureAdoptsPatientWithSameEmail(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	n := newPatient(1)
	n.Metadata = clinic.Metadata{}
	there, err := s.Client.Clinic.Patients.Create(t.Context(), n)
	require.NoError(t, err)

	n = newPatient(1)
	n.Email = "Patient-1@EXAMPLE.com"
	got, created, err := s.Client.Clinic.Patients.Ensure(t.Context(), n)
	require.NoError(t, err)
	assert.False(t, created)
	assert.Equal(t, there.ID, got.ID)
	assert.Equal(t, "ehr-patient-1", got.Metadata.ID)

	n.Metadata.ID = "ehr-canary"
	_, _, err = s.Client.Clinic.Patients.Ensure(t.Context(), n)
	var rejected *api.EnsureError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, api.EnsureReasonTaken, rejected.Reason)
	assert.Equal(t, []string{there.ID}, rejected.IDs)
	assert.Equal(t, map[string][]string{"email": {"Email has already been taken"}}, dispensary.ProblemOf(err).Fields)
	assert.NotContains(t, err.Error(), "example.com")
	assert.NotContains(t, err.Error(), "canary")
}

func TestEnsureAdoptsSamePersonOnly(t *testing.T) {
	t.Parallel()
	born, other := api.Date{Year: 1986, Month: 5, Day: 2}, api.Date{Year: 2019, Month: 9, Day: 14}
	there := clinic.PatientCreate{Email: "family@example.com", FirstName: "Ren\u00e9e", LastName: "O'Neill-Quill", DateOfBirth: born}
	for name, test := range map[string]struct {
		change func(n *clinic.PatientCreate)
		adopts bool
	}{
		"equal":             {func(*clinic.PatientCreate) {}, true},
		"case and accents":  {func(n *clinic.PatientCreate) { n.FirstName, n.LastName = "RENEE", "o\u2019neill quill" }, true},
		"combining accent":  {func(n *clinic.PatientCreate) { n.FirstName = "Rene\u0301e" }, true},
		"no date of birth":  {func(n *clinic.PatientCreate) { n.DateOfBirth = api.Date{} }, true},
		"address in spaces": {func(n *clinic.PatientCreate) { n.Email = " Family@Example.COM\t" }, true},
		"another person":    {func(n *clinic.PatientCreate) { n.FirstName, n.DateOfBirth = "Noah", other }, false},
		"first name":        {func(n *clinic.PatientCreate) { n.FirstName = "Noah" }, false},
		"last name":         {func(n *clinic.PatientCreate) { n.LastName = "Vane" }, false},
		"date of birth":     {func(n *clinic.PatientCreate) { n.DateOfBirth = other }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			made, err := s.Client.Clinic.Patients.Create(t.Context(), there)
			require.NoError(t, err)
			n := there
			n.Metadata = clinic.Metadata{ID: "ehr-canary"}
			test.change(&n)
			got, created, err := s.Client.Clinic.Patients.Ensure(t.Context(), n)
			stored, readErr := s.Client.Clinic.Patients.Get(t.Context(), made.ID)
			require.NoError(t, readErr)
			assert.False(t, created)
			if test.adopts {
				require.NoError(t, err)
				assert.Equal(t, made.ID, got.ID)
				assert.Equal(t, "ehr-canary", stored.Metadata.ID)
				return
			}
			var rejected *api.EnsureError
			require.ErrorAs(t, err, &rejected)
			assert.Equal(t, api.EnsureReasonContradicted, rejected.Reason)
			assert.Equal(t, []string{made.ID}, rejected.IDs)
			assert.Equal(t, "email", rejected.Field)
			assert.Empty(t, stored.Metadata.ID)
			assert.NotContains(t, err.Error(), "canary")
		})
	}
}

func TestEnsureDoesNotFoldForeignLetters(t *testing.T) {
	t.Parallel()
	fixture := calltest.NewFixture(t)
	var updates atomic.Int32
	client := fixture.Platform.Client(model.User{}, dispensary.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
		record := `{"id":"other","email":"\u212Aate@example.com"}`
		switch {
		case r.Method == http.MethodPatch:
			updates.Add(1)
		case r.Method == http.MethodPost:
			return respond(r, `{"patient":{"id":"new","metadata":{"id":"own-1"}}}`), nil
		case strings.HasSuffix(r.URL.Path, "/search/patients"):
			return respond(r, `{"patients":[`+record+`],"meta":{"current_page":1,"total_pages":1,"total_count":1}}`), nil
		case strings.HasSuffix(r.URL.Path, "/metadata"):
			return respond(r, `{"metadata":[],"meta":{"current_page":1,"total_pages":0,"total_count":0}}`), nil
		}
		return respond(r, `{"patient":`+record+`}`), nil
	})))
	patient, created, err := client.Clinic.Patients.Ensure(t.Context(), clinic.PatientCreate{
		Email: "kate@example.com", FirstName: "Kate", LastName: "D", Metadata: clinic.Metadata{ID: "own-1"},
	})
	require.NoError(t, err)
	assert.True(t, created)
	assert.Equal(t, "new", patient.ID)
	assert.Zero(t, updates.Load())
}

// alteringPlatform stores metadata ids in another form than the requested one.
func alteringPlatform(base http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return base.RoundTrip(r)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.ReplaceAll(body, []byte("EHR "), []byte("ehr-"))
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return base.RoundTrip(r)
	})
}

func TestEnsureReportsAlteredMetadataID(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	s.Through(alteringPlatform)
	ctx, before := t.Context(), newPatient(2)
	before.Metadata = clinic.Metadata{}
	_, err := s.Client.Clinic.Patients.Create(ctx, before)
	require.NoError(t, err)
	for name, ensure := range ensures(s) {
		var first, second *api.EnsureError
		_, _, err := ensure(ctx, clinic.Metadata{ID: "EHR 17"})
		require.ErrorAs(t, err, &first, name)
		assert.Equal(t, api.EnsureReasonAltered, first.Reason, name)
		require.Len(t, first.IDs, 1, name)
		assert.NotEmpty(t, first.IDs[0], name)
		calls := len(s.Platform.Journal.Requests(name))
		_, _, err = ensure(ctx, clinic.Metadata{ID: "EHR 17"})
		require.ErrorAs(t, err, &second, name)
		assert.Len(t, s.Platform.Journal.Requests(name), calls, "%s must not create a second record", name)
		if name != "patients.create" { // its second call finds the first record by email
			assert.Equal(t, first, second, name)
		}
	}

	adopted := newPatient(2)
	adopted.Metadata.ID = "EHR 18"
	_, _, err = s.Client.Clinic.Patients.Ensure(ctx, adopted)
	var altered *api.EnsureError
	require.ErrorAs(t, err, &altered)
	assert.Equal(t, api.EnsureReasonAltered, altered.Reason)
}

func TestEnsureReportsAmbiguousMetadataID(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	n := treatmentplans.PlanCreate{PractitionerID: s.Practitioner, Recommendations: s.Recommendations(), Metadata: metadataOf("plan", 1)}
	var made []string
	for range 2 {
		plan, err := s.Client.TreatmentPlans.Create(t.Context(), s.Patient, n)
		require.NoError(t, err)
		made = append(made, plan.ID)
	}
	_, _, err := s.Client.TreatmentPlans.Ensure(t.Context(), s.Patient, n)
	var rejected *api.EnsureError
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, api.EnsureReasonAmbiguous, rejected.Reason)
	assert.ElementsMatch(t, made, rejected.IDs)

	n.Metadata.ID = "elsewhere"
	other := s.Platform.Patients.All()[1].ID
	plan, err := s.Client.TreatmentPlans.Create(t.Context(), other, n)
	require.NoError(t, err)
	_, _, err = s.Client.TreatmentPlans.Ensure(t.Context(), s.Patient, n)
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, api.EnsureReasonTaken, rejected.Reason)
	assert.Equal(t, []string{plan.ID}, rejected.IDs)
	assert.Equal(t, map[string][]string{"metadata.id": {"Metadata.id has already been taken"}}, dispensary.ProblemOf(err).Fields)
}

func TestEnsureValidatesArguments(t *testing.T) {
	t.Parallel()
	client, err := dispensary.New(sandboxSite())
	require.NoError(t, err)
	n := newPatient(1)
	n.Metadata = clinic.Metadata{}
	_, _, err = client.Clinic.Patients.Ensure(t.Context(), n)
	assert.EqualError(t, err, "dispensary: patients.create: metadata.id can't be blank")
	_, _, err = client.TreatmentPlans.Ensure(t.Context(), "", treatmentplans.PlanCreate{Metadata: metadataOf("plan", 1)})
	assert.EqualError(t, err, "dispensary: treatment_plans.create: patient_id must be an id, practitioner_id can't be blank, recommendations can't be blank")
}

// Only the platform can report a duplicate email in another clinic.
func TestEnsureReturnsRejection(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	taken, err := s.Client.Clinic.Practitioners.Get(t.Context(), s.Practitioner)
	require.NoError(t, err)
	_, _, err = s.Client.Clinic.Practitioners.Ensure(t.Context(), clinic.PractitionerCreate{
		PractitionerTypeID: s.PractitionerType, FirstName: "P", LastName: "Example", Email: taken.Email, Metadata: metadataOf("practitioner", 1),
	})
	assert.ErrorIs(t, err, dispensary.ErrValidation)
	assert.ErrorIs(t, err, dispensary.ErrNotApplied)
	assert.Equal(t, map[string][]string{"email": {"Email has already been taken"}}, dispensary.ProblemOf(err).Fields)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// respond returns a response of the platform.
func respond(r *http.Request, body string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"X-Request-Id": {"req-1"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// If an entry has the metadata id and no record, Ensure neither returns an empty record nor
// creates one.
func TestEnsureReturnsNoRecordWithoutID(t *testing.T) {
	t.Parallel()
	platform := calltest.NewFixture(t).Platform
	for _, data := range []string{`null`, `{}`, `{"id":""}`, `{"patient":{"id":"p-1"}}`} {
		client := platform.Client(model.User{}, dispensary.WithTransport(roundTripper(func(r *http.Request) (*http.Response, error) {
			assert.Equal(t, http.MethodGet, r.Method, data)
			return respond(r, `{"metadata":[{"id":"ehr-patient-1","type":"patient","data":`+data+`}],"meta":{"current_page":1,"total_pages":1,"total_count":1}}`), nil
		})))
		patient, created, err := client.Clinic.Patients.Ensure(t.Context(), newPatient(1))
		require.ErrorIs(t, err, api.ErrBadResponse, data)
		assert.Nil(t, patient, data)
		assert.False(t, created, data)
	}
}
