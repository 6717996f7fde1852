package clinic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/resourcetest"
)

// wantPatient is what the client should return of a patient that the platform holds.
func (b *bench) wantPatient(t *testing.T, id string) clinic.Patient {
	t.Helper()
	held, known := b.Server.Patients.Get(id)
	require.True(t, known)
	want := clinic.Patient{
		ID: held.ID, FirstName: held.FirstName, LastName: held.LastName, Email: held.Email, Gender: clinic.Gender(held.Gender),
		Discount: held.Discount, TotalDiscount: float64(held.Discount + b.Server.Clinics.All()[0].Discount),
		MobileNumber: held.MobileNumber, TextMessageNotification: held.TextNotification,
		Metadata: clinic.Metadata{ID: held.MetadataID},
	}
	if held.DateOfBirth != "" {
		var err error
		want.DateOfBirth, err = api.ParseDate(held.DateOfBirth)
		require.NoError(t, err)
	}
	return want
}

func TestPatients(t *testing.T) {
	t.Parallel()
	b := start(t)
	listed := resourcetest.Walk(t, 2, func(p api.Paging) clinic.PatientListOptions { return clinic.PatientListOptions{Paging: p} },
		b.Patients.List, b.Patients.Pages, b.Patients.All)
	require.Len(t, listed, len(b.Server.Patients.All()))
	for i, held := range b.Server.Patients.All() {
		want := b.wantPatient(t, held.ID)
		got, err := b.Patients.Get(t.Context(), held.ID)
		require.NoError(t, err)
		assert.EqualExportedValues(t, want, *got)
		assert.Equal(t, clinic.PatientSummary{ID: want.ID, FirstName: want.FirstName, LastName: want.LastName, Email: want.Email}, listed[i])
	}
}

func TestCreatePatient(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, test := range map[string]struct {
		patient  clinic.NewPatient
		body     string
		welcomed bool
	}{
		"least": {
			clinic.NewPatient{Email: "least@example.com", FirstName: "Least", LastName: "Example"},
			`{"email":"least@example.com","first_name":"Least","last_name":"Example"}`, true,
		},
		"most": {
			clinic.NewPatient{
				Email: "most@example.com", FirstName: "Most", LastName: "Example", Gender: clinic.X, Discount: 12.5,
				DateOfBirth: api.Date{Year: 1980, Month: 2, Day: 29}, MobileNumber: "+15555550155",
				SendWelcomeEmail: api.Value(false), Metadata: clinic.Metadata{ID: "ehr-1"},
			},
			`{"email":"most@example.com","first_name":"Most","last_name":"Example","gender":"x","discount":12.5,
			"date_of_birth":"1980-02-29","mobile_number":"+15555550155","send_welcome_email":false,"metadata":{"id":"ehr-1"}}`, false,
		},
	} {
		created, err := b.Patients.Create(t.Context(), test.patient)
		require.NoError(t, err, name)
		assert.JSONEq(t, test.body, b.sent.String(), name)
		assert.EqualExportedValues(t, b.wantPatient(t, created.ID), *created, name)
		held, _ := b.Server.Patients.Get(created.ID)
		assert.Equal(t, test.welcomed, held.Welcomed, name)
	}
	b.Server.Journal().CheckNoUnexpected(t)
	assert.Empty(t, b.Server.Events(), "the integrator's own calls make no events")
}

// patientUpdates are updates as they are sent, and what they change.
var patientUpdates = []struct {
	update clinic.PatientUpdate
	body   string
	change func(*model.Patient)
}{
	{clinic.PatientUpdate{}, `{}`, func(*model.Patient) {}},
	{clinic.PatientUpdate{FirstName: api.Value("Changed")}, `{"first_name":"Changed"}`, func(p *model.Patient) { p.FirstName = "Changed" }},
	{
		clinic.PatientUpdate{
			Email: api.Value("changed@example.com"), LastName: api.Value("Name"), DateOfBirth: api.Value(api.Date{Year: 1999, Month: 12, Day: 31}),
			Gender: api.Value(clinic.Male), MobileNumber: api.Value("+15555550177"), Discount: api.Value[float64](2.5), Metadata: api.Value(clinic.Metadata{ID: "ehr-9"}),
		},
		`{"email":"changed@example.com","last_name":"Name","date_of_birth":"1999-12-31","gender":"male","mobile_number":"+15555550177","discount":2.5,"metadata":{"id":"ehr-9"}}`,
		func(p *model.Patient) {
			p.Email, p.LastName, p.DateOfBirth, p.Gender = "changed@example.com", "Name", "1999-12-31", "male"
			p.MobileNumber, p.Discount, p.MetadataID = "+15555550177", 2.5, "ehr-9"
		},
	},
	{
		clinic.PatientUpdate{DateOfBirth: api.Null[api.Date](), Gender: api.Null[clinic.Gender](), MobileNumber: api.Null[string](), Discount: api.Value[float64](0)},
		`{"date_of_birth":null,"gender":null,"mobile_number":null,"discount":0}`,
		func(p *model.Patient) { p.DateOfBirth, p.Gender, p.MobileNumber, p.Discount = "", "", "", 0 },
	},
}

// An update changes what it names, and nothing else.
func TestUpdatePatient(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.Server.Patients.All()[0].ID
	for _, test := range patientUpdates {
		want, _ := b.Server.Patients.Get(id)
		test.change(&want)
		updated, err := b.Patients.Update(t.Context(), id, test.update)
		require.NoError(t, err)
		assert.JSONEq(t, test.body, b.sent.String())
		held, _ := b.Server.Patients.Get(id)
		assert.Equal(t, want, held, test.body)
		assert.EqualExportedValues(t, b.wantPatient(t, id), *updated, test.body)
	}
	b.Server.Journal().CheckNoUnexpected(t)
}

func TestSearchPatients(t *testing.T) {
	t.Parallel()
	b := start(t)
	all := resourcetest.Walk(t, 2, func(p api.Paging) clinic.PatientSearchOptions {
		return clinic.PatientSearchOptions{Query: "example.org", Paging: p}
	},
		b.Patients.Search, b.Patients.SearchPages, b.Patients.SearchAll)
	assert.Len(t, all, len(b.Server.Patients.All()))
	b.Server.Journal().CheckNoUnexpected(t)
}
