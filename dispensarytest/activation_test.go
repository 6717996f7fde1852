package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// API sections: "Clinic", "Authentication" 9, "Webhooks" 6.
func TestFirstKeyActivatesIntegration(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	hook := newReceiver(nil)
	hook.secret = b.fake.Application().ChallengeToken
	require.NoError(t, b.fake.Webhooks.RegisterHandler(hook))
	_, early := b.place()
	assert.Nil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	require.ErrorContains(t, b.wait(early), "no integration of the clinic is active: send a request with its clinic key")
	assert.Empty(t, b.get("/events/clinic_keys").ok(200, "events"))

	b.key = b.fake.ClinicKey()
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.fake.Clock().Advance(0)
	require.Len(t, hook.all(), 1, "the activation itself is sent")
	assert.Contains(t, hook.all()[0].body, model.ClinicKeyActivated)
	assert.Equal(t, []any{model.ClinicKeyActivated}, b.get("/events/clinic_keys").column("events", "type"))
	_, late := b.place()
	require.NoError(t, b.wait(late))
	assert.Len(t, b.get("/events/orders").column("events", "id"), 2, "both can be read")
}

func TestActivationBehaviorSwitches(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	require.NoError(t, b.fake.Webhooks.RegisterHandler(newReceiver(nil)))
	require.NoError(t, b.fake.SetBehavior(IntegrationActivationFromTheStart))
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	_, err := b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.ErrorIs(t, err, model.ErrState)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	b.key = b.fake.ClinicKey()
	b.get("/clinic").ok(200)
	assert.Empty(t, b.get("/events/clinic_keys").ok(200, "events"), "the first key makes no event")

	require.NoError(t, b.fake.SetBehavior(IntegrationActivationFirstKey))
	b.key = ""
	assert.Nil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 1)
	_, err = b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.NoError(t, err)
	b.place()
	assert.Len(t, b.fake.Webhooks.Deliveries(), 3, "the activation and the order")
}

func TestVariablesContainKeyOfOnlyClinic(t *testing.T) {
	t.Parallel()
	one := New(t, WithInMemory())
	assert.Equal(t, one.ClinicKey(), one.Variables()["DISPENSARY_US_SANDBOX_CLINIC_KEY"])
	two := New(t, WithInMemory(), WithWorldSize(model.WorldSize{Clinics: 2}))
	assert.NotContains(t, two.Variables(), "DISPENSARY_US_SANDBOX_CLINIC_KEY")
}
