package dispensarytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
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

func TestLostDeliveryNamesFault(t *testing.T) {
	t.Parallel()
	b, _ := hooked(t, nil)
	b.fake.Fault(model.Fault{Effect: model.EffectDeliveryLost, Times: 1})
	_, event, err := b.fake.Patients.Create(model.PatientCreate{})
	require.NoError(t, err)
	require.ErrorContains(t, b.fake.Webhooks.WaitDelivered(t.Context(), event.ID), "the fault delivery_lost prevented the delivery")
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

// verdict records a check's failures in place of the test.
type verdict struct {
	testing.TB
	failures []string
}

func (v *verdict) Helper() {}
func (v *verdict) Errorf(format string, a ...any) {
	v.failures = append(v.failures, fmt.Sprintf(format, a...))
}
func (v *verdict) Error(a ...any) { v.failures = append(v.failures, fmt.Sprint(a...)) }

// says requires one failure with all texts, or no failure without texts.
func (v *verdict) says(t *testing.T, texts ...string) {
	t.Helper()
	if len(texts) == 0 {
		assert.Empty(t, v.failures)
		return
	}
	require.Len(t, v.failures, 1)
	for _, text := range texts {
		assert.Contains(t, v.failures[0], text)
	}
}

func TestLeakCheckFindsSecrets(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithTuning(Tuning{WorldSize: model.WorldSize{Patients: 50}}))
	jane, app := b.fake.Patients.All()[0], b.fake.Application()
	check := func(texts ...string) *verdict {
		v := &verdict{TB: t}
		b.fake.CheckNoLeak(v, texts...)
		return v
	}
	check("nothing here", "patients.get "+jane.ID+" → 200", "Janette did Doeful things", "").says(t)
	check().says(t)
	v := check("all well", "line one\nGET /search?query=Jane done")
	v.says(t, "the first name of patient "+jane.ID+" in text 2, line 2", `query=█ done`)
	assert.NotContains(t, v.failures[0], "Jane ")
	for how, text := range map[string]string{
		"email of patient": "to " + jane.Email,
		"email of patient " + jane.ID + ", URL-encoded,": "q=" + url.QueryEscape(jane.Email),
		", URL-encoded, in":           strings.ToLower(url.QueryEscape(jane.MobileNumber)),
		"in hexadecimal":              hex.EncodeToString([]byte("x" + jane.Email + "y")),
		"mobile number":               "call " + jane.MobileNumber,
		"date of birth":               "born " + jane.DateOfBirth,
		"metadata id":                 jane.MetadataID,
		"the client secret":           "secret=" + app.ClientSecret,
		"the webhook secret":          strings.ToUpper(hex.EncodeToString([]byte(app.WebhookSecret))),
		"the challenge token":         app.ChallengeToken,
		"the access token of token-1": "Bearer " + b.token,
		"a clinic key":                b.fake.ClinicKey(),
		"the street":                  "100 Example Street",
		"the password of user":        b.fake.Users()[0].Password,
	} {
		v := check(text)
		require.NotEmpty(t, v.failures, how)
		assert.Contains(t, v.failures[0], how)
	}
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("-", offset) + jane.Email + "---"))
		check(text).says(t, "in base64", jane.ID)
	}
	check(base64.URLEncoding.EncodeToString([]byte(b.token))).says(t, "the access token", "in base64")
	check(strings.Repeat(jane.Email+"\n", 3)).says(t, "line 1")
	var everyone []string
	for _, p := range b.fake.Patients.All() {
		everyone = append(everyone, p.Email)
	}
	check(everyone...).says(t, "more")
}

func TestBackoffCheckFindsEarlyRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.get("/clinic")
		backoff(t, b).says(t, "none of 1 responses asked for a wait")
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1})
		b.get("/clinic")
		backoff(t, b).says(t, "the closest is #2 clinic.get", "without a Retry-After")
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 2, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		b.get("/clinic/patients")
		time.Sleep(2 * time.Second)
		b.get("/clinic").ok(200)
		backoff(t, b).says(t)
		b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1, RetryAfter: 2 * time.Second})
		b.get("/clinic")
		time.Sleep(300 * time.Millisecond)
		b.get("/clinic").ok(200)
		backoff(t, b).says(t, "#6 clinic.get GET /api/clinic → 429", "asked for 2s, but #7 came after 300ms, 1.7s too early")
	})
	b := start(t, WithInMemory(), WithClock(frozen()))
	b.fake.Fault(model.Fault{Effect: model.EffectTooManyRequests, Times: 1, RetryAfter: time.Second})
	b.get("/clinic")
	b.get("/clinic")
	backoff(t, b).says(t, "the platform's clock is frozen")
}

func TestNPlusOneCheckFindsSingleReads(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	check := func(atMost int) *verdict {
		v := &verdict{TB: t}
		b.fake.Journal.CheckNoNPlusOne(v, atMost)
		return v
	}
	patients := b.fake.Patients.All()
	b.get("/clinic/patients/" + patients[0].ID)
	check(0).says(t)
	b.get("/clinic/patients?page[size]=3").ok(200)
	b.get("/clinic/patients?page[size]=3&page[number]=2").ok(200)
	for _, p := range patients {
		b.get("/clinic/patients/" + p.ID + "/orders").ok(200)
		b.get("/clinic/patients/" + p.ID + "/orders").ok(200)
	}
	check(5).says(t)
	check(4).says(t, "at most 4 reads", "orders.list_for_patient 5 times, for different objects, after #2 patients.list", "orders.list reads up to 100")
	b.get("/catalog/brands").ok(200)
	b.get("/clinic/patients/" + patients[0].ID).ok(200)
	check(4).says(t, "5 times")
}
