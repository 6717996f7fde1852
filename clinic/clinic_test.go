package clinic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGetClinic(t *testing.T) {
	t.Parallel()
	b := start(t)
	held := b.Server.Clinics.All()[0]
	got, err := b.Get(t.Context())
	require.NoError(t, err)
	assert.Equal(t, held.ID, got.ID)
	assert.Equal(t, held.Name, got.Name)
	assert.EqualValues(t, len(b.Server.Patients.All()), got.PatientCount)
	assert.EqualValues(t, len(b.Server.Clinics.Practitioners()), got.PractitionerCount)
	assert.Equal(t, held.Discount, got.Discount)
	assert.Equal(t, held.DispensaryURL, got.DispensaryURL)
	assert.NotEmpty(t, got.IntegrationID)
	assert.True(t, got.IntegrationActivatedAt.IsZero(), "no request had a clinic key")

	_, err = b.Server.Clinics.ActivateKey(b.Server.ClinicKey())
	require.NoError(t, err)
	got, err = b.Get(t.Context())
	require.NoError(t, err)
	assert.False(t, got.IntegrationActivatedAt.IsZero())
	b.Server.Journal().CheckNoUnexpected(t)
}
