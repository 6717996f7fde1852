package dispensarytest

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// wholeLife takes a webhook endpoint from its first delivery to its last: six
// attempts at the right times, disabled after a day, enabled again, disabled on 410,
// and 30 days later forgotten. pass lets time go by.
func wholeLife(t *testing.T, b *browser, pass func(time.Duration)) {
	status := http.StatusInternalServerError
	hook := newReceiver(func(_ int, w http.ResponseWriter, challenge string) {
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		acknowledge(w, challenge)
	})
	hook.secret = b.fake.Application().ChallengeToken
	require.NoError(t, b.fake.Webhooks.RegisterHandler(hook))
	log := func(e model.Event) map[string]any {
		b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
		return b.get("/webhooks/deliveries?event_id="+e.ID).ok(200, "webhook_deliveries").([]any)[0].(map[string]any)
	}
	_, first := b.place()
	at := first.CreatedAt
	pass(0)
	for n, wait := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour, 5 * time.Hour, 0} {
		row := log(first)
		assert.EqualValues(t, n+1, row["attempt_number"])
		assert.Equal(t, view.Time(at), row["attempted_at"])
		assert.Equal(t, false, row["successfully_delivered"])
		if wait == 0 {
			assert.Nil(t, row["next_attempt_at"], "six attempts, no seventh")
			break
		}
		at = at.Add(wait)
		assert.Equal(t, view.Time(at), row["next_attempt_at"])
		pass(wait - time.Nanosecond)
		assert.Len(t, hook.all(), n+1, "not a moment too early")
		pass(time.Nanosecond)
	}
	signatures := make(map[string]bool)
	for _, got := range hook.all() {
		signatures[got.header.Get("SVC-Signature")] = true
	}
	assert.Len(t, signatures, 6, "signed anew before each attempt")
	pass(20 * time.Hour)
	_, second := b.place()
	pass(0)
	endpoint, _ := b.fake.Webhooks.Endpoint()
	require.True(t, endpoint.Disabled)
	assert.Equal(t, "attempts kept failing for more than 24 hours", endpoint.Reason)
	sent := len(hook.all())
	_, unsent := b.place()
	pass(10 * time.Hour)
	assert.Len(t, hook.all(), sent, "delivery stops")
	require.ErrorContains(t, b.wait(second), "stopped with the endpoint")
	require.ErrorContains(t, b.wait(unsent), "disabled")

	require.NoError(t, b.fake.Webhooks.Enable())
	status = http.StatusOK
	_, third := b.place()
	require.NoError(t, b.wait(third))
	assert.Equal(t, true, log(third)["successfully_delivered"])
	status = http.StatusGone
	b.place()
	pass(0)
	endpoint, _ = b.fake.Webhooks.Endpoint()
	assert.Equal(t, "it answered 410", endpoint.Reason)

	pass(30*24*time.Hour - 30*time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	assert.NotEmpty(t, b.get("/webhooks/deliveries").column("webhook_deliveries", "id"))
	assert.Empty(t, b.get(fmt.Sprintf("/webhooks/deliveries?event_id=%s", first.ID)).column("webhook_deliveries", "id"), "30 days are over")
	pass(2 * 24 * time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	assert.Empty(t, b.get("/webhooks/deliveries").column("webhook_deliveries", "id"))
}

func TestWholeWebhookLifeOnAFrozenClock(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()), WithBehavior(DeliveryConditionsOff))
	wholeLife(t, b, b.fake.Clock().Advance)
}

func TestWholeWebhookLifeInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory(), WithBehavior(DeliveryConditionsOff))
		wholeLife(t, b, func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		})
	})
}

// The switches of the field, all at once: probes that are not signed, several
// integrations, disorder, repeats.
func TestWebhookSwitchesTogether(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()), WithIntegrations(2), WithDisorder(3, time.Minute),
		WithBehavior(ProbeBeforeEach), WithBehavior(ProbeSignatureUnsigned))
	hook := newReceiver(nil)
	hook.secret = b.fake.Application().ChallengeToken
	require.NoError(t, b.fake.Webhooks.RegisterHandler(hook))
	repeat := b.fake.Fault(model.Fault{Effect: model.DeliveryRepeated, Chance: 0.5, Seed: 4})
	for range 10 {
		b.place()
	}
	b.fake.Clock().Advance(time.Minute)
	probes := 0
	for _, got := range hook.all() {
		if got.body == "" {
			probes++
			assert.Empty(t, got.header.Get("SVC-Signature"))
		}
	}
	assert.Equal(t, 21, probes, "one on registration, one before each of ten events for two integrations")
	assert.Positive(t, repeat.Fired())
	assert.Len(t, hook.all(), 41+repeat.Fired())
}
