package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twoClinics is a platform of two clinics, with the browser of the second one's
// first practitioner.
func twoClinics(t *testing.T, opts ...Option) (first, second *browser) {
	first = start(t, append([]Option{WithInMemory(), WithClock(frozen()), WithWorldSize(WorldSize{Clinics: 2, Patients: 8, Plans: 8, Orders: 8})}, opts...)...)
	return first, first.of(first.fake.Platform().Clinics()[1])
}

// of is the same browser with the token of a clinic's first practitioner.
func (b *browser) of(clinic Clinic) *browser {
	b.t.Helper()
	for _, u := range b.fake.Users() {
		if u.clinicID == clinic.ID {
			other := *b
			other.token = b.fake.IssueToken(u).AccessToken
			return &other
		}
	}
	require.Fail(b.t, "the clinic has no users")
	return nil
}

// Events of products go to every clinic; each sees what became of its own copy.
func TestDeliveriesAreTheClinicsOwn(t *testing.T) {
	t.Parallel()
	first, second := twoClinics(t)
	hook := newReceiver(nil)
	hook.secret = first.fake.Application().ChallengeToken
	require.NoError(t, first.fake.RegisterWebhookHandler(hook))
	_, event, err := first.fake.Platform().CreateProduct(NewProduct{})
	require.NoError(t, err)
	require.NoError(t, first.wait(event))
	require.Len(t, first.fake.Deliveries(), 2)
	for i, b := range []*browser{first, second} {
		rows := b.get("/webhooks/deliveries").ok(200, "webhook_deliveries").([]any)
		require.Len(t, rows, 1)
		shown := rows[0].(map[string]any)["event_payload"].(map[string]any)["event"].(map[string]any)
		assert.Equal(t, first.fake.Deliveries()[i].IntegrationID, shown["integration_id"])
		assert.Equal(t, b.get("/clinic").ok(200, "clinic", "integration_id"), shown["integration_id"])
	}
}

// A live token of one clinic has nothing sent to another.
func TestDeliveryConditionsAreTheClinicsOwn(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()), WithWorldSize(WorldSize{Clinics: 2}))
	require.NoError(t, b.fake.RegisterWebhookHandler(newReceiver(nil)))
	create := func() Event {
		_, event, err := b.fake.Platform().CreateProduct(NewProduct{})
		require.NoError(t, err)
		return event
	}
	create()
	require.Len(t, b.fake.Deliveries(), 1)
	assert.Equal(t, b.get("/clinic").ok(200, "clinic", "integration_id"), b.fake.Deliveries()[0].IntegrationID)
	b.of(b.fake.Platform().Clinics()[1])
	create()
	assert.Len(t, b.fake.Deliveries(), 3)
	b.fake.InvalidateTokens()
	require.ErrorContains(t, b.wait(create()), "no live token of the clinic has the scope catalog:read")
}
