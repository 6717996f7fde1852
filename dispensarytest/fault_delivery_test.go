package dispensarytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// eventFields returns a field of the received events, in order.
func (r *receiver) eventFields(t testing.TB, field string) (values []any) {
	t.Helper()
	for _, got := range r.all() {
		var sent struct{ Event map[string]any }
		require.NoError(t, json.Unmarshal([]byte(got.body), &sent))
		values = append(values, sent.Event[field])
	}
	return values
}

// verified checks a signature as a receiver does.
func (b *browser) verified(got received) (age time.Duration, genuine bool) {
	stamp, signature, _ := strings.Cut(strings.TrimPrefix(got.header.Get("SVC-Signature"), "t="), ",v1=")
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(b.t, err)
	mac := hmac.New(sha256.New, []byte(b.fake.Application().WebhookSecret))
	mac.Write([]byte(stamp + "." + got.body))
	return b.fake.Clock.Now().Sub(time.Unix(seconds, 0)), signature == hex.EncodeToString(mac.Sum(nil))
}

func TestDeliveryFaultsChangeSignatures(t *testing.T) {
	t.Parallel()
	for effect, want := range map[model.Effect]struct {
		age     time.Duration
		genuine bool
	}{
		model.EffectDeliveryStale:  {10 * time.Minute, true},
		model.EffectDeliveryFuture: {-10 * time.Minute, true},
		model.EffectDeliveryForged: {0, false},
	} {
		b, hook := hooked(t, func(n int, w http.ResponseWriter, challenge string) {
			if n == 1 {
				w.WriteHeader(http.StatusForbidden) // the response of a correct receiver
				return
			}
			acknowledge(w, challenge)
		})
		fault := b.fake.Fault(model.Fault{Effect: effect, EventType: model.EventOrderPlaced, Times: 1})
		_, e := b.place()
		b.fake.Clock.Advance(0)
		age, genuine := b.verified(hook.all()[0])
		assert.Equal(t, want.age, age, effect)
		assert.Equal(t, want.genuine, genuine, effect)
		assert.Equal(t, effect, b.fake.Webhooks.Deliveries()[0].Attempts[0].Fault)
		b.fake.Clock.Advance(time.Minute)
		require.NoError(t, b.wait(e), "the next attempt has a valid signature")
		age, genuine = b.verified(hook.all()[1])
		assert.Zero(t, age)
		assert.True(t, genuine)
		assert.Equal(t, 1, fault.Fired())
	}
	b, hook := hooked(t, nil)
	b.fake.Fault(model.Fault{Effect: model.EffectDeliveryStale, Delay: time.Hour})
	b.place()
	b.fake.Clock.Advance(0)
	age, _ := b.verified(hook.all()[0])
	assert.Equal(t, time.Hour, age)
}

func TestDeliveryFaultRepeatsEvent(t *testing.T) {
	t.Parallel()
	b, hook := hooked(t, nil)
	b.fake.Fault(model.Fault{Effect: model.EffectDeliveryRepeated, Times: 2})
	_, first := b.place()
	b.fake.Clock.Advance(time.Second)
	_, second := b.place()
	_, third := b.place()
	b.fake.Clock.Advance(0)
	assert.Equal(t, []any{first.ID, first.ID, second.ID, second.ID, third.ID}, hook.eventFields(t, "id"))
	require.NoError(t, b.wait(first))
	attempts := b.fake.Webhooks.Deliveries()[0].Attempts
	require.Len(t, attempts, 2)
	assert.Equal(t, model.EffectDeliveryRepeated, attempts[1].Fault)
	_, genuine := b.verified(hook.all()[1])
	assert.True(t, genuine)
}

func TestDeliveryFaultReordersEvents(t *testing.T) {
	t.Parallel()
	b, hook := hooked(t, nil)
	b.fake.Fault(model.Fault{Effect: model.EffectDeliveryReordered, Times: 1})
	_, first := b.place()
	b.fake.Clock.Advance(time.Second)
	assert.Empty(t, hook.all(), "it waits to be overtaken")
	_, second := b.place()
	b.fake.Clock.Advance(0)
	require.NoError(t, b.wait(first))
	assert.Equal(t, []any{second.ID, first.ID}, hook.eventFields(t, "id"))

	b.fake.Fault(model.Fault{Effect: model.EffectDeliveryReordered, Times: 1, Delay: time.Hour})
	_, alone := b.place()
	require.ErrorContains(t, b.wait(alone), "the clock is frozen")
	b.fake.Clock.Advance(time.Hour)
	require.NoError(t, b.wait(alone), "no other delivery overtook it")
	assert.Len(t, hook.all(), 3)
}
