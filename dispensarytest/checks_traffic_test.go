package dispensarytest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

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
		"e-mail address of patient":                               "to " + jane.Email,
		"e-mail address of patient " + jane.ID + ", URL-encoded,": "q=" + url.QueryEscape(jane.Email),
		", URL-encoded, in":                                       strings.ToLower(url.QueryEscape(jane.MobileNumber)),
		"in hexadecimal":                                          hex.EncodeToString([]byte("x" + jane.Email + "y")),
		"mobile number":                                           "call " + jane.MobileNumber,
		"date of birth":                                           "born " + jane.DateOfBirth,
		"metadata id":                                             jane.MetadataID,
		"the client secret":                                       "secret=" + app.ClientSecret,
		"the webhook secret":                                      strings.ToUpper(hex.EncodeToString([]byte(app.WebhookSecret))),
		"the challenge token":                                     app.ChallengeToken,
		"the access token of token-1":                             "Bearer " + b.token,
		"a clinic key":                                            b.fake.ClinicKey(),
		"the street":                                              "100 Example Street",
		"the password of user":                                    b.fake.Users()[0].Password,
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
