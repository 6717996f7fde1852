package dispensarytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/store"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// hooked returns a platform in memory on a frozen clock, with a receiver.
func hooked(t *testing.T, script func(n int, w http.ResponseWriter, challenge string), opts ...Option) (*browser, *receiver) {
	b := start(t, append([]Option{WithInMemory(), WithClock(frozen())}, opts...)...)
	hook := b.hosts(script)
	return b, hook
}

// oneOfEach emits an event of every type.
func (b *browser) oneOfEach() map[string]model.Event {
	b.t.Helper()
	events := make(map[string]model.Event)
	note := func(_ any, e model.Event, err error) {
		b.t.Helper()
		require.NoError(b.t, err)
		events[e.Type] = e
	}
	jane, plan, product := b.fake.Patients.All()[0], b.fake.Plans.All()[0], b.fake.Products.All()[0]
	note(b.fake.Patients.Create(model.PatientCreate{}))
	note(b.fake.Patients.Update(jane.ID, model.PatientUpdate{Gender: new(store.GenderX)}))
	note(b.fake.Plans.Create(jane.ID, model.PlanCreate{}))
	note(b.fake.Plans.Update(plan.ID, model.PlanUpdate{PersonalMessage: new("Hello")}))
	note(b.fake.Plans.UpdateRecommendation(plan.ID, plan.Recommendations[0]))
	note(b.fake.Orders.Place(jane.ID, model.OrderCreate{}))
	note(b.fake.Products.Create(model.ProductCreate{}))
	note(b.fake.Products.Update(product.ID, model.ProductUpdate{}))
	note(b.fake.Products.Describe(product.ID, "<p>x</p>"))
	b.fake.Clock.Advance(0) // a revocation ends pending deliveries
	e, err := b.fake.Clinics.RevokeKey(b.fake.ClinicKey())
	note(nil, e, err)
	e, err = b.fake.Clinics.ActivateKey(b.fake.ClinicKey())
	note(nil, e, err)
	return events
}

func TestEveryEventTypeIsDelivered(t *testing.T) {
	t.Parallel()
	b, hook := hooked(t, nil)
	events := b.oneOfEach()
	require.Len(t, events, len(model.EventTypes()))
	b.fake.Clock.Advance(0)
	byID := make(map[string]map[string]any)
	for _, got := range hook.all() {
		var sent struct{ Event map[string]any }
		require.NoError(t, json.Unmarshal([]byte(got.body), &sent))
		byID[sent.Event["id"].(string)] = sent.Event
	}
	for kind, e := range events {
		sent := byID[e.ID]
		if kind == model.EventClinicKeyRevoked {
			assert.NotNil(t, sent, "the revocation is the last event")
		}
		require.NotNil(t, sent, kind)
		assert.Equal(t, kind, sent["type"])
		assert.Equal(t, view.Time(e.CreatedAt), sent["created_at"])
		assert.NotEmpty(t, sent["integration_id"])
		_, scoped := sent["clinic_id"]
		assert.Equal(t, !strings.HasPrefix(kind, "product."), scoped, kind)
		data, err := json.Marshal(sent["data"])
		require.NoError(t, err)
		assert.JSONEq(t, string(e.Data), string(data), kind)
		if group, _, _ := strings.Cut(kind, "."); kind == model.EventOrderPlaced || kind == model.EventProductCreated {
			assert.Contains(t, sent["data"], "id", kind)
		} else {
			assert.Equal(t, []string{group}, keysOf(sent["data"]), "the data is wrapped")
		}
		read := b.get("/events/"+e.ID).object(200, "event")
		assert.NotContains(t, read, "integration_id")
		delete(sent, "integration_id")
		assert.Equal(t, sent, read, "the webhook equals the event in the API")
	}
}

// An event is sent only if a live consent has its scope.
func TestDeliveryRequiresLiveScope(t *testing.T) {
	t.Parallel()
	needs := map[string]string{
		model.EventPatientCreated: "patients:read", model.EventPatientUpdated: "patients:read", model.EventOrderPlaced: "patients:order_history",
		model.EventTreatmentPlanCreated: "patients:treatment_plan_history", model.EventTreatmentPlanUpdated: "patients:treatment_plan_history", model.EventTreatmentPlanRecommendationUpdated: "patients:treatment_plan_history",
		model.EventProductCreated: "catalog:read", model.EventProductUpdated: "catalog:read", model.EventProductDescriptionUpdated: "catalog:read",
		model.EventClinicKeyRevoked: "", model.EventClinicKeyActivated: "",
	}
	for _, held := range []string{"patients:read", "patients:order_history", "patients:treatment_plan_history", "catalog:read"} {
		b, _ := hooked(t, nil)
		b.fake.Tokens.InvalidateAll()
		b.fake.Tokens.Issue(model.User{}, held)
		events := b.oneOfEach()
		b.fake.Clock.Advance(0)
		for kind, e := range events {
			err := b.wait(e)
			if needs[kind] == held || needs[kind] == "" {
				assert.NoError(t, err, "%s with %s", kind, held)
				continue
			}
			assert.ErrorContains(t, err, "no live token of the clinic has the scope "+needs[kind], "%s with %s", kind, held)
		}
	}
}

// A success within 24 hours restarts the failure period.
func TestSuccessResetsFailureCount(t *testing.T) {
	t.Parallel()
	down := true
	b, _ := hooked(t, func(_ int, w http.ResponseWriter, challenge string) {
		if down {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		acknowledge(w, challenge)
	}, WithBehavior(behavior.DeliveryConditionsOff))
	b.place()
	b.fake.Clock.Advance(23 * time.Hour)
	endpoint, _ := b.fake.Webhooks.Endpoint()
	assert.False(t, endpoint.FailingSince.IsZero())
	down = false
	_, e := b.place()
	require.NoError(t, b.wait(e))
	endpoint, _ = b.fake.Webhooks.Endpoint()
	assert.True(t, endpoint.FailingSince.IsZero())
	down = true
	b.fake.Clock.Advance(23 * time.Hour)
	b.place()
	b.fake.Clock.Advance(23 * time.Hour)
	endpoint, _ = b.fake.Webhooks.Endpoint()
	assert.False(t, endpoint.Disabled)
}

func TestRegisterReplacesEndpoint(t *testing.T) {
	t.Parallel()
	b, first := hooked(t, nil)
	second := newReceiver(nil)
	second.secret = first.secret
	require.NoError(t, b.fake.Host(ehr, second))
	activate(b.t, b.fake)
	require.NoError(t, b.fake.Webhooks.Register(ehr+"/hook", model.EventOrderPlaced))
	_, e := b.place()
	require.NoError(t, b.wait(e))
	assert.Empty(t, first.all())
	assert.Len(t, second.all(), 1)
	require.NoError(t, b.fake.Webhooks.Enable(), "enabling an enabled endpoint changes nothing")
	_, registered := New(t, WithInMemory()).Webhooks.Endpoint()
	assert.False(t, registered)
	require.ErrorContains(t, New(t, WithInMemory()).Webhooks.Enable(), "no webhook endpoint")
}

// The delivery log shows each state of a delivery.
func TestDeliveryLogShowsEachState(t *testing.T) {
	t.Parallel()
	b, _ := hooked(t, func(n int, w http.ResponseWriter, challenge string) {
		w.Header().Set("X-Try", fmt.Sprint(n))
		switch n {
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = fmt.Fprint(w, "down")
			return
		}
		acknowledge(w, challenge)
	})
	_, e := b.place()
	_ = b.wait(e)
	row := func() map[string]any {
		return b.get("/webhooks/deliveries").ok(200, "webhook_deliveries").([]any)[0].(map[string]any)
	}
	lost := row()
	assert.EqualValues(t, 1, lost["attempt_number"])
	assert.Nil(t, lost["response_status"], "there was no response")
	assert.Nil(t, lost["previous_attempt_at"])
	assert.Equal(t, view.Time(e.CreatedAt.Add(time.Minute)), lost["next_attempt_at"])
	assert.Contains(t, lost["response_errors"], "reset")
	assert.Equal(t, false, lost["successfully_delivered"])
	assert.Contains(t, b.fake.Webhooks.Deliveries()[0].String(), "; next attempt at 2026-03-02T09:01:00Z")
	b.fake.Clock.Advance(time.Minute)
	rejected := row()
	assert.EqualValues(t, 2, rejected["attempt_number"])
	assert.EqualValues(t, 500, rejected["response_status"])
	assert.Equal(t, "down", rejected["response_body"])
	assert.Contains(t, rejected["response_header"], "X-Try: 2")
	assert.Equal(t, view.Time(e.CreatedAt), rejected["previous_attempt_at"])
	b.fake.Clock.Advance(5 * time.Minute)
	done := row()
	assert.EqualValues(t, 3, done["attempt_number"])
	assert.EqualValues(t, 200, done["response_status"])
	assert.Nil(t, done["response_errors"])
	assert.Nil(t, done["next_attempt_at"])
	assert.Equal(t, true, done["successfully_delivered"])
	assert.Equal(t, lost["id"], done["id"], "all attempts share one row")
	assert.Equal(t, "attempt 3: ok", b.fake.Webhooks.Deliveries()[0].String())
}

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
