package dispensarytest

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// failing responds with the current value of status.
func failing(status *atomic.Int64) func(int, http.ResponseWriter, string) {
	return func(_ int, w http.ResponseWriter, challenge string) {
		w.WriteHeader(int(status.Load()))
		acknowledge(w, challenge)
	}
}

// After a revocation, neither failed nor pending deliveries are attempted, except the event of
// the revocation.
func TestRevokedIntegrationReceivesNothingElse(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	b, hook := hooked(t, failing(&status))
	registered, event, err := b.fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	b.fake.Clock.Advance(0)
	b.fake.Fault(model.Fault{Effect: model.EffectDeliveryReordered, EventType: model.EventPatientUpdated})
	_, held, err := b.fake.Patients.Update(registered.ID, model.PatientUpdate{Gender: new(store.GenderX)})
	require.NoError(t, err)
	b.fake.Clock.Advance(0)

	revoked, err := b.fake.Clinics.RevokeKey(b.fake.ClinicKey())
	require.NoError(t, err)
	b.fake.Clock.Advance(0)
	status.Store(http.StatusOK)
	row := b.get("/webhooks/deliveries?event_id="+event.ID).ok(200, "webhook_deliveries").([]any)[0].(map[string]any)
	assert.Nil(t, row["next_attempt_at"], "the log announces no further attempt")
	require.ErrorContains(t, b.wait(event), "attempt 1 failed: status 500 is neither 200 nor 201; the clinic revoked the integration's key")
	require.ErrorContains(t, b.wait(held), "no attempt yet; the clinic revoked the integration's key")
	b.fake.Clock.Advance(24 * time.Hour)
	assert.Equal(t, []any{model.EventPatientCreated, model.EventClinicKeyRevoked, model.EventClinicKeyRevoked}, hook.eventFields(t, "type"), "the revocation has all its attempts")
	require.NoError(t, b.wait(revoked))

	_, err = b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	require.NoError(t, err)
	require.NoError(t, b.fake.SetBehavior(behavior.ResumeAfterEnableResumed))
	require.NoError(t, b.fake.Webhooks.Enable())
	b.fake.Clock.Advance(24 * time.Hour)
	assert.Equal(t, []any{model.EventPatientCreated, model.EventClinicKeyRevoked, model.EventClinicKeyRevoked, model.EventClinicKeyActivated}, hook.eventFields(t, "type"), "stopped deliveries are not resumed")
	assert.True(t, b.fake.Webhooks.Deliveries()[0].Revoked)
}

// Other integrations of the clinic are unaffected.
func TestRevocationStopsOneIntegration(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	b, _ := hooked(t, failing(&status), WithTuning(Tuning{Integrations: 2}))
	b.place()
	b.fake.Clock.Advance(0)
	_, err := b.fake.Clinics.RevokeKey(b.fake.ClinicKeys()[0])
	require.NoError(t, err)
	status.Store(http.StatusOK)
	b.fake.Clock.Advance(time.Hour)
	first, second := b.fake.Webhooks.Deliveries()[0], b.fake.Webhooks.Deliveries()[1]
	assert.Len(t, first.Attempts, 1)
	assert.False(t, first.Delivered)
	assert.Len(t, second.Attempts, 2)
	assert.True(t, second.Delivered)
	_, event := b.place()
	require.NoError(t, b.wait(event))
	later := slices.DeleteFunc(b.fake.Webhooks.Deliveries(), func(d model.Delivery) bool { return d.EventID != event.ID })
	require.Len(t, later, 1)
	assert.Equal(t, second.IntegrationID, later[0].IntegrationID, "later events reach only the other integration")
	assert.Len(t, b.get("/events/orders").column("events", "id"), 2, "all integrations share one event")
}

// A disabled endpoint has no next attempt, neither for the delivery that met 410 nor for
// earlier failures. After it is enabled, the result does not depend on the time.
func TestDisabledEndpointHasNoNextAttempt(t *testing.T) {
	t.Parallel()
	for reading, want := range map[string]int{"dropped": 2, "resumed": 4} {
		for _, after := range []time.Duration{time.Second, time.Hour} {
			var status atomic.Int64
			status.Store(http.StatusInternalServerError)
			b, hook := hooked(t, failing(&status), WithBehavior("resume-after-enable="+behavior.Variant(reading)))
			b.place()
			b.fake.Clock.Advance(0)
			status.Store(http.StatusGone)
			b.place()
			b.fake.Clock.Advance(0)
			for _, at := range b.get("/webhooks/deliveries").column("webhook_deliveries", "next_attempt_at") {
				assert.Nil(t, at, reading)
			}
			_, due := b.fake.Clock.Next()
			assert.False(t, due, "no attempt is planned")
			b.fake.Clock.Advance(after)
			status.Store(http.StatusOK)
			require.NoError(t, b.fake.Webhooks.Enable())
			b.fake.Clock.Advance(24 * time.Hour)
			assert.Len(t, hook.all(), want, "%s %s", reading, after)
		}
	}
}

// Disabling an endpoint during an attempt prevents the retries of that attempt.
func TestDisablingStopsRetriesOfRunningAttempts(t *testing.T) {
	t.Parallel()
	b := start(t, WithTuning(Tuning{ParallelDeliveries: 2}), WithClock(frozen()))
	var both sync.WaitGroup
	both.Add(2)
	hook := listen(t, func(n int, w http.ResponseWriter, _ string) {
		both.Done()
		both.Wait() // until both attempts are running
		w.WriteHeader([]int{http.StatusGone, http.StatusInternalServerError}[n-1])
	})
	b.subscribe(hook)
	_, first := b.place()
	_, second := b.place()
	for _, e := range []model.Event{first, second} {
		require.Error(t, b.wait(e))
	}
	require.Eventually(t, func() bool {
		for _, d := range b.fake.Webhooks.Deliveries() {
			if len(d.Attempts) != 1 {
				return false
			}
		}
		return true
	}, time.Minute, time.Millisecond)
	for _, d := range b.fake.Webhooks.Deliveries() {
		assert.True(t, d.Stopped)
		assert.Zero(t, d.NextAttemptAt)
	}
}

func TestDeliveriesRunInParallel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory(), WithBehavior(behavior.DeliveryConditionsOff), WithTuning(Tuning{ParallelDeliveries: 8}))
		challenge := b.fake.Application().ChallengeToken
		activate(b.t, b.fake)
		require.NoError(t, b.fake.Webhooks.RegisterHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			acknowledge(w, challenge)
		})))
		began := time.Now()
		var events []model.Event
		for range 16 {
			_, e := b.place()
			events = append(events, e)
		}
		for _, e := range events {
			require.NoError(t, b.wait(e))
		}
		assert.Equal(t, 2*time.Second, time.Since(began), "two rounds of eight")
		for _, d := range b.fake.Webhooks.Deliveries() {
			assert.True(t, d.Delivered)
		}
	})
	_, err := Start(WithTuning(Tuning{ParallelDeliveries: -1}))
	require.Error(t, err)
}
