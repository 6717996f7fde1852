package clinic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/clinic"
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
