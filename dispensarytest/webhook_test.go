package dispensarytest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/view"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/webhooks"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// place places an order of the first patient.
func (b *browser) place() (model.Order, model.Event) {
	b.t.Helper()
	order, event, err := b.fake.Orders.Place(b.fake.Patients.All()[0].ID, model.OrderCreate{})
	require.NoError(b.t, err)
	return order, event
}

func (b *browser) wait(event model.Event) error {
	b.t.Helper()
	return b.fake.Webhooks.WaitDelivered(b.t.Context(), event.ID)
}

// The vector comes from:
//
//	printf '1772442000.{"event":{"id":"1"}}' | openssl dgst -sha256 -hmac whsec
func TestSignatureMatchesVector(t *testing.T) {
	t.Parallel()
	s := webhooks.New(webhooks.Config{Clock: frozen().clock, InMemory: true, App: model.Application{WebhookSecret: "whsec"}})
	assert.Equal(t, "t=1772442000,v1=d60e0784a9a4b08b9c4621bbb7bfa0f8d4e06adf12a707f4f60bb61c03eff53b", s.Sign([]byte(`{"event":{"id":"1"}}`), webhooks.Signature{}))
}

func TestDeliveryRequiresChallenge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		response func(w http.ResponseWriter, challenge string)
		says     string
	}{
		"200":            {acknowledge, ""},
		"201":            {func(w http.ResponseWriter, c string) { w.WriteHeader(201); acknowledge(w, c) }, ""},
		"202":            {func(w http.ResponseWriter, c string) { w.WriteHeader(202); acknowledge(w, c) }, "status 202"},
		"redirect":       {func(w http.ResponseWriter, c string) { w.Header().Set("Location", "/"); w.WriteHeader(302) }, "status 302"},
		"no challenge":   {func(w http.ResponseWriter, c string) { acknowledge(w, "") }, "challenge token"},
		"not JSON":       {func(w http.ResponseWriter, c string) { _, _ = w.Write([]byte(c)) }, "not JSON"},
		"nothing":        {func(http.ResponseWriter, string) {}, "not JSON"},
		"hangs up":       {func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) }, "EOF"},
		"endless answer": {func(w http.ResponseWriter, c string) { _, _ = w.Write(make([]byte, 1<<20)) }, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t, WithClock(frozen()))
			b.subscribe(listen(t, func(_ int, w http.ResponseWriter, challenge string) { c.response(w, challenge) }))
			_, event := b.place()
			err := b.wait(event)
			if c.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestSlowReceiverDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	b := start(t, WithClock(frozen()), WithTuning(Tuning{DeliveryTimeout: 50 * time.Millisecond}))
	b.subscribe(listen(t, func(_ int, _ http.ResponseWriter, _ string) { <-release }))
	_, event := b.place()
	b.get("/clinic").ok(200)
	require.ErrorContains(t, b.wait(event), "no response within 50ms")
	close(release)
}

func TestUnsentEventHasReason(t *testing.T) {
	t.Parallel()
	b, hook := start(t), listen(t, nil)
	says := func(text string) {
		t.Helper()
		_, event := b.place()
		require.ErrorContains(t, b.wait(event), text)
	}
	says("no webhook endpoint is registered")
	b.subscribe(hook, model.EventPatientCreated)
	says("not subscribed to order.placed")
	b.subscribe(hook)
	b.fake.Tokens.InvalidateAll()
	says("no live token of the clinic has the scope patients:order_history")
	b.with("patients:read")
	says("patients:order_history")
	b.with("patients:order_history")
	_, event := b.place()
	require.NoError(t, b.wait(event))
	assert.Equal(t, "127.0.0.1", b.fake.Webhooks.Deliveries()[0].Attempts[0].IPAddress)
	_, err := b.fake.Clinics.RevokeKey(b.fake.ClinicKey())
	require.NoError(t, err)
	says("no integration of the clinic is active: its clinic key was revoked")
	require.ErrorContains(t, b.fake.Webhooks.WaitDelivered(t.Context(), "never"), "the event is unknown")
	assert.Len(t, notSent(b.fake), 6, "five orders, and the activation")
}

func TestProbesFollowBehavior(t *testing.T) {
	t.Parallel()
	b, hook := start(t, WithBehavior(behavior.ProbeBeforeEach), WithClock(frozen())), listen(t, nil)
	b.subscribe(hook)
	_, event := b.place()
	require.NoError(t, b.wait(event))
	got := hook.all()
	require.Len(t, got, 3, "one probe on registration, one before the event")
	assert.Empty(t, got[1].body)
	assert.NotEmpty(t, got[1].header.Get("SVC-Signature"))
	assert.NotEmpty(t, got[2].body)

	deaf := listen(t, func(n int, w http.ResponseWriter, _ string) { acknowledge(w, "wrong") })
	b = start(t, WithBehavior(behavior.ProbeOnRegistration), WithBehavior(behavior.ProbeSignatureUnsigned))
	require.ErrorContains(t, b.fake.Webhooks.Register(deaf.URL), "probe: the response does not contain the challenge token")
	assert.Empty(t, deaf.all()[0].header.Get("SVC-Signature"))
	_, registered := b.fake.Webhooks.Endpoint()
	assert.False(t, registered)
	_, err := Start(WithBehavior(behavior.ProbeOnRegistration), WithWebhook(deaf.URL))
	require.ErrorContains(t, err, "challenge token")
}

func TestWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.subscribe(listen(t, func(_ int, w http.ResponseWriter, _ string) { w.WriteHeader(500) }))
	_, event := b.place()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	err := b.fake.Webhooks.WaitDelivered(ctx, event.ID)
	require.ErrorIs(t, err, context.Canceled)
}

func TestCloseEndsDeliveries(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	fake, err := Start(WithBehavior(behavior.DeliveryConditionsOff))
	require.NoError(t, err)
	reached := make(chan struct{})
	hook := listen(t, func(_ int, _ http.ResponseWriter, _ string) { close(reached); <-stuck })
	defer close(stuck)
	activate(t, fake)
	require.NoError(t, fake.Webhooks.Register(hook.URL))
	_, event, err := fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	<-reached
	require.NoError(t, fake.Close())
	require.NoError(t, fake.Close())
	require.ErrorContains(t, fake.Webhooks.WaitDelivered(t.Context(), event.ID), "the platform was closed")
}

// wholeLife runs a webhook endpoint from its first delivery to its last: six attempts at the
// right times, disabled after a day, enabled again, disabled on 410, and deleted from the log
// 30 days later. pass lets time pass.
func wholeLife(t *testing.T, b *browser, pass func(time.Duration)) {
	status := http.StatusInternalServerError
	hook := b.hosts(func(_ int, w http.ResponseWriter, challenge string) {
		if status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		acknowledge(w, challenge)
	})
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
			assert.Nil(t, row["next_attempt_at"], "there is no seventh attempt")
			break
		}
		at = at.Add(wait)
		assert.Equal(t, view.Time(at), row["next_attempt_at"])
		pass(wait - time.Nanosecond)
		assert.Len(t, hook.all(), n+1, "the retry is not early")
		pass(time.Nanosecond)
	}
	signatures := make(map[string]bool)
	for _, got := range hook.all() {
		signatures[got.header.Get("SVC-Signature")] = true
	}
	assert.Len(t, signatures, 6, "each attempt has its own signature")
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
	assert.Equal(t, "it responded with 410", endpoint.Reason)

	pass(30*24*time.Hour - 30*time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	assert.NotEmpty(t, b.get("/webhooks/deliveries").column("webhook_deliveries", "id"))
	assert.Empty(t, b.get(fmt.Sprintf("/webhooks/deliveries?event_id=%s", first.ID)).column("webhook_deliveries", "id"), "30 days are over")
	pass(2 * 24 * time.Hour)
	b.token = b.fake.Tokens.Issue(model.User{}).AccessToken
	assert.Empty(t, b.get("/webhooks/deliveries").column("webhook_deliveries", "id"))
}

func TestEndpointLifecycleFollowsFrozenClock(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()), WithBehavior(behavior.DeliveryConditionsOff))
	wholeLife(t, b, b.fake.Clock.Advance)
}

func TestEndpointLifecycleFollowsBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory(), WithBehavior(behavior.DeliveryConditionsOff))
		wholeLife(t, b, func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		})
	})
}

// backoff runs the check.
func backoff(t *testing.T, b *browser) *verdict {
	v := &verdict{TB: t}
	b.fake.Journal.CheckBackoffHonored(v)
	return v
}

// A request that was sent before the response can arrive long after the response to another
// one. It is not a repetition.
func TestRequestInFlightPassesBackoffCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(100 * time.Millisecond)
		b.get("/clinic").ok(200)
		assert.NotEmpty(t, backoff(t, b).failures, "no repetition in time")
		time.Sleep(2 * time.Second)
		b.get("/clinic").ok(200)
		b.fake.Journal.CheckBackoffHonored(t)
	})
}

// One timely repetition does not excuse two early ones.
func TestBackoffCheckFindsImpatientClient(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string][]time.Duration{
		"at once":             {0},
		"after half the wait": {time.Second, time.Second},
		"own backoff":         {200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := start(t, WithInMemory())
				b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: len(waits), RetryAfter: 2 * time.Second})
				b.get("/clinic")
				for _, d := range waits {
					time.Sleep(d)
					b.get("/clinic")
				}
				assert.NotEmpty(t, backoff(t, b).failures)
			})
		})
	}
}

// The wait begins with the response, even if the platform was slow.
func TestBackoffCheckMeasuresFromResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.EffectLatency, Delay: 5 * time.Second, Times: 1})
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(time.Second)
		b.get("/clinic").ok(200)
		backoff(t, b).says(t, "came after 1s, 1s too early")
	})
}
