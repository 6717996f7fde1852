package dispensary_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/treatmentplans"
)

// unreliable loses the answers of creating calls after they were applied: half of
// them, in one of three ways.
type unreliable struct {
	base http.RoundTripper
	mu   sync.Mutex
	rng  *rand.Rand
	lost atomic.Int32
}

var errLost = errors.New("connection lost")

func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.base.RoundTrip(r)
	if err != nil || r.Method != http.MethodPost {
		return response, err
	}
	u.mu.Lock()
	fate := u.rng.IntN(6)
	u.mu.Unlock()
	switch fate {
	case 0: // the connection breaks
		err = errLost
	case 1: // a proxy answers in the platform's place
		response.StatusCode, response.Body = http.StatusBadGateway, io.NopCloser(bytes.NewReader([]byte("<html>")))
		response.ContentLength = -1
		u.lost.Add(1)
		return response, nil
	case 2: // the client's patience ends
		err = context.DeadlineExceeded
	default:
		return response, nil
	}
	u.lost.Add(1)
	_ = response.Body.Close()
	return nil, err
}

// Whatever happens to the answers, and however many callers want the same record,
// there is exactly one of each in the end.
func TestEnsureLeavesExactlyOneOfEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testEnsureLeavesExactlyOneOfEach)
}

func testEnsureLeavesExactlyOneOfEach(t *testing.T) {
	const records, callers = 250, 4 // a thousand calls
	s := calltest.NewFixture(t)
	faults := &unreliable{base: s.Platform.HTTPClient().Transport, rng: rand.New(rand.NewPCG(1, 2))}
	client := s.Platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: faults}))
	ensure := []func(i int) (id string, created bool, err error){
		func(i int) (string, bool, error) {
			p, created, err := client.Clinic.Patients.Ensure(t.Context(), newPatient(i))
			return idOf(p, func(p *clinic.Patient) string { return p.ID }), created, err
		},
		func(i int) (string, bool, error) {
			p, created, err := client.Clinic.Practitioners.Ensure(t.Context(), clinic.NewPractitioner{
				PractitionerTypeID: s.PractitionerType, FirstName: "P", LastName: "Example",
				Email: fmt.Sprintf("practitioner-%d@example.com", i), Metadata: metadataOf("practitioner", i),
			})
			return idOf(p, func(p *clinic.Practitioner) string { return p.ID }), created, err
		},
		func(i int) (string, bool, error) {
			p, created, err := client.Clinic.Staff.Ensure(t.Context(), clinic.NewStaffMember{
				FirstName: "S", LastName: "Example", Email: fmt.Sprintf("staff-%d@example.com", i), Metadata: metadataOf("staff", i),
			})
			return idOf(p, func(p *clinic.StaffMember) string { return p.ID }), created, err
		},
		func(i int) (string, bool, error) {
			p, created, err := client.TreatmentPlans.Ensure(t.Context(), s.Patient, treatmentplans.NewPlan{
				PractitionerID: s.Practitioner, Recommendations: s.Recommendations(), State: treatmentplans.StateDraft, Metadata: metadataOf("plan", i),
			})
			return idOf(p, func(p *treatmentplans.Plan) string { return p.ID }), created, err
		},
	}
	var ids sync.Map // of each record, as every caller must see it
	var created atomic.Int32
	var group sync.WaitGroup
	for i := range records {
		for range callers {
			group.Go(func() {
				id, made, err := ensure[i%len(ensure)](i)
				if !assert.NoError(t, err) {
					return
				}
				if made {
					created.Add(1)
				}
				first, _ := ids.LoadOrStore(i, id)
				assert.Equal(t, first, id, "record %d", i)
			})
		}
	}
	group.Wait()
	assert.EqualValues(t, records, created.Load(), "each record is created by one caller")
	assert.Greater(t, faults.lost.Load(), int32(records/4))
	for i := range records {
		kind := []string{"patient", "practitioner", "staff", "plan"}[i%len(ensure)]
		page, err := s.Client.Clinic.Metadata.List(t.Context(), clinic.MetadataListOptions{ID: metadataOf(kind, i).ID})
		require.NoError(t, err)
		assert.Len(t, page.Items, 1, "%s %d", kind, i)
	}
}

func metadataOf(kind string, i int) clinic.Metadata {
	return clinic.Metadata{ID: fmt.Sprintf("ehr-%s-%d", kind, i)}
}

func newPatient(i int) clinic.NewPatient {
	return clinic.NewPatient{
		FirstName: "E", LastName: "Example", Email: fmt.Sprintf("patient-%d@example.com", i),
		SendWelcomeEmail: dispensary.Value(false), Metadata: metadataOf("patient", i),
	}
}

func idOf[T any](record *T, id func(*T) string) string {
	if record == nil {
		return ""
	}
	return id(record)
}

func TestEnsureAdoptsAPatientWithTheSameEmail(t *testing.T) {
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
	var refused *api.EnsureError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, api.EnsureTaken, refused.Reason)
	assert.Equal(t, []string{there.ID}, refused.IDs)
	assert.Equal(t, map[string][]string{"email": {"Email has already been taken"}}, dispensary.FieldErrors(err))
	assert.NotContains(t, err.Error(), "example.com")
	assert.NotContains(t, err.Error(), "canary")
}

func TestEnsureReportsWhatItCannotDecide(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	n := treatmentplans.NewPlan{PractitionerID: s.Practitioner, Recommendations: s.Recommendations(), Metadata: metadataOf("plan", 1)}
	var made []string
	for range 2 {
		plan, err := s.Client.TreatmentPlans.Create(t.Context(), s.Patient, n)
		require.NoError(t, err)
		made = append(made, plan.ID)
	}
	_, _, err := s.Client.TreatmentPlans.Ensure(t.Context(), s.Patient, n)
	var refused *api.EnsureError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, api.EnsureAmbiguous, refused.Reason)
	assert.ElementsMatch(t, made, refused.IDs)

	n.Metadata.ID = "elsewhere"
	other := s.Platform.Patients.All()[1].ID
	plan, err := s.Client.TreatmentPlans.Create(t.Context(), other, n)
	require.NoError(t, err)
	_, _, err = s.Client.TreatmentPlans.Ensure(t.Context(), s.Patient, n)
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, api.EnsureTaken, refused.Reason)
	assert.Equal(t, []string{plan.ID}, refused.IDs)
	assert.Equal(t, map[string][]string{"metadata.id": {"Metadata.id has already been taken"}}, dispensary.FieldErrors(err))
}

func TestEnsureChecksItsArguments(t *testing.T) {
	t.Parallel()
	client, err := dispensary.New(sandboxSite())
	require.NoError(t, err)
	n := newPatient(1)
	n.Metadata = clinic.Metadata{}
	_, _, err = client.Clinic.Patients.Ensure(t.Context(), n)
	assert.EqualError(t, err, "dispensary: patients.create: metadata.id can't be blank")
	_, _, err = client.TreatmentPlans.Ensure(t.Context(), "", treatmentplans.NewPlan{Metadata: metadataOf("plan", 1)})
	assert.EqualError(t, err, "dispensary: treatment_plans.create: patient_id must be an id, practitioner_id can't be blank, recommendations can't be blank")
}

func TestInvalidUTF8SendsNothing(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	before := len(s.Platform.Journal().Requests())
	n := newPatient(1)
	n.FirstName = "Ren\xe9e"
	_, err := s.Client.Clinic.Patients.Create(t.Context(), n)
	require.EqualError(t, err, "dispensary: patients.create: first_name must be valid UTF-8")
	_, err = s.Client.Clinic.Patients.Update(t.Context(), s.Patient, clinic.PatientUpdate{LastName: dispensary.Value("Lef\xe8vre")})
	require.EqualError(t, err, "dispensary: patients.update: last_name must be valid UTF-8")
	_, _, err = s.Client.TreatmentPlans.Ensure(t.Context(), s.Patient, treatmentplans.NewPlan{
		PractitionerID: s.Practitioner, Recommendations: s.Recommendations(), Metadata: clinic.Metadata{ID: "visite-d\xe9c-17"},
	})
	require.EqualError(t, err, "dispensary: treatment_plans.create: metadata.id must be valid UTF-8")
	_, err = s.Client.Clinic.Metadata.List(t.Context(), clinic.MetadataListOptions{ID: "visite-d\xe9c-17"})
	require.EqualError(t, err, "dispensary: metadata.list: id must be valid UTF-8")
	assert.Len(t, s.Platform.Journal().Requests(), before)
}

// A duplicate e-mail that is in another clinic is the platform's to report.
func TestEnsurePassesARefusalOn(t *testing.T) {
	t.Parallel()
	s := calltest.NewFixture(t)
	taken, err := s.Client.Clinic.Practitioners.Get(t.Context(), s.Practitioner)
	require.NoError(t, err)
	_, _, err = s.Client.Clinic.Practitioners.Ensure(t.Context(), clinic.NewPractitioner{
		PractitionerTypeID: s.PractitionerType, FirstName: "P", LastName: "Example", Email: taken.Email, Metadata: metadataOf("practitioner", 1),
	})
	assert.ErrorIs(t, err, dispensary.ErrInvalid)
	assert.ErrorIs(t, err, dispensary.ErrRefused)
	assert.Equal(t, map[string][]string{"email": {"Email has already been taken"}}, dispensary.FieldErrors(err))
}

// found answers every search with one entry of metadata, and counts what is created.
type found struct {
	data    string
	creates atomic.Int32
}

func (f *found) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		f.creates.Add(1)
	}
	body := `{"metadata":[{"id":"ehr-patient-1","type":"patient","data":` + f.data + `}],
		"meta":{"current_page":1,"next_page":null,"prev_page":null,"total_pages":1,"total_count":1}}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r}, nil
}

// An entry that carries the metadata id and no record is neither returned as an empty record
// nor a reason to create one.
func TestEnsureReturnsNoRecordWithoutID(t *testing.T) {
	t.Parallel()
	platform := calltest.NewFixture(t).Platform
	for _, data := range []string{`null`, `{}`, `{"id":""}`, `{"patient":{"id":"p-1"}}`} {
		answers := &found{data: data}
		client := platform.Client(model.User{}, dispensary.WithHTTPClient(&http.Client{Transport: answers}))
		patient, created, err := client.Clinic.Patients.Ensure(t.Context(), newPatient(1))
		require.ErrorIs(t, err, api.ErrBadResponse, data)
		assert.Nil(t, patient, data)
		assert.False(t, created, data)
		assert.Zero(t, answers.creates.Load(), data)
	}
}
