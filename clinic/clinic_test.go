package clinic_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
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
	assert.Equal(t, api.Percent(held.Discount), got.Discount)
	assert.Equal(t, held.DispensaryURL, got.DispensaryURL)
	assert.NotEmpty(t, got.IntegrationID)
	assert.False(t, got.IntegrationActivatedAt.IsZero())
	b.Server.Journal().CheckNoUnexpected(t)
}

// The first request with the clinic's key activates the integration.
func TestClinicKeyActivatesTheIntegration(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	platform := dispensarytest.New(t, dispensarytest.WithBehavior(dispensarytest.IntegrationActivationFirstKey), dispensarytest.WithClock(dispensarytest.FrozenClock(now)))
	without, err := platform.Client(model.User{}).Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.True(t, without.IntegrationActivatedAt.IsZero())

	keyed := platform.Client(model.User{}, dispensary.WithClinicKey(dispensary.Secret(platform.ClinicKey())))
	with, err := keyed.Clinic.Get(t.Context())
	require.NoError(t, err)
	assert.True(t, with.IntegrationActivatedAt.Equal(now), with.IntegrationActivatedAt)
	assert.Equal(t, without.IntegrationID, with.IntegrationID)
	require.Len(t, platform.Events(), 1)
	assert.Equal(t, model.ClinicKeyActivated, platform.Events()[0].Type)
}

// What the token may not do is forbidden, whatever the clinic's key.
func TestClinicNeedsItsScope(t *testing.T) {
	t.Parallel()
	platform := dispensarytest.New(t)
	client := platform.Client(model.User{}).WithTokenSource(platform.TokenSource(model.User{}, "catalog:read"))
	_, err := client.Clinic.Get(t.Context())
	require.ErrorIs(t, err, api.ErrForbidden)
	platform.Tokens.InvalidateAll()
	_, err = client.Clinic.Get(t.Context())
	require.ErrorIs(t, err, api.ErrUnauthorized)
}
