package dispensarytest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// everyWay runs a test on each transport.
func everyWay(t *testing.T, run func(t *testing.T, way Option)) {
	t.Helper()
	for name, way := range map[string]Option{"memory": WithInMemory(), "loopback": WithTuning(Tuning{Addr: defaultAddr}), "tls": WithTLS()} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, way) })
	}
}

// newcomer returns a request that creates a patient. A plain client sends it once.
func (b *browser) newcomer(email string) *http.Request {
	body := `{"first_name":"Ida","last_name":"Moor","email":"` + email + `"}`
	req, err := http.NewRequestWithContext(b.t.Context(), "POST", b.fake.Site().BaseURL+"/clinic/patients", strings.NewReader(body))
	require.NoError(b.t, err)
	req.Header.Set("Authorization", "Bearer "+b.token)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// try sends a request whose connection may drop.
func (b *browser) try(req *http.Request) (status int, body string, err error) {
	resp, err := b.fake.HTTPClient().Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// The connection drops before or after the platform has done its work.
func TestFaultDropsConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		effect             model.Effect
		made, first, again int // number of patients, and the statuses of the platform's responses
	}{{model.EffectDropAfterCommit, 1, 201, 422}, {model.EffectDropBeforeCommit, 0, 0, 201}} {
		everyWay(t, func(t *testing.T, way Option) {
			b := start(t, way)
			drop := b.fake.Fault(model.Fault{Operation: "patients.create", Effect: c.effect, Times: 1})
			_, _, err := b.try(b.newcomer("ida@example.org"))
			require.Error(t, err, "there was no response")
			assert.Equal(t, 1, drop.Fired())
			assert.Len(t, b.get("/clinic/search/patients?query=ida@example.org").column("patients", "id"), c.made)
			status, text, err := b.try(b.newcomer("ida@example.org"))
			require.NoError(t, err)
			assert.Equal(t, c.again, status, "second request: %s", text)
			first := b.fake.Journal.Requests("patients.create")[0]
			assert.Equal(t, c.first, first.Status, "the status of the lost response")
			assert.Equal(t, []model.Effect{c.effect}, first.Faults)
			assert.Contains(t, first.String(), "["+string(c.effect)+"]")
		})
	}
}

func TestFaultTruncatesBody(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, way Option) {
		b := start(t, way)
		whole := b.get("/clinic").text
		b.fake.Fault(model.Fault{Operation: "clinic.get", Effect: model.EffectTruncatedBody, Times: 1})
		b.fake.Fault(model.Fault{Operation: "clinic.get", Effect: model.EffectTruncatedBody, Times: 1, Bytes: 10})
		for _, want := range []string{whole[:len(whole)/2], whole[:10]} {
			req := b.request("GET", "/clinic")
			req.Header.Set("Authorization", "Bearer "+b.token)
			status, text, err := b.try(req)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.Equal(t, 200, status)
			assert.Equal(t, want, text)
		}
		assert.Equal(t, whole, b.get("/clinic").text)
	})
}

func TestFaultStatusHasPlatformShape(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{
		401: `{"error":"No"}`, 403: `{"error":"No"}`, 404: `{"status":404,"error":"No"}`, 409: `{"status":409,"error":"No"}`,
		422: `{"error":["No"]}`, 500: `{"status":500,"error":"No"}`, 503: `{"status":503,"error":"No"}`,
	} {
		b := start(t, WithInMemory())
		fault := b.fake.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: status, Messages: []string{"No"}, Times: 2})
		a := b.get("/clinic/patients")
		assert.JSONEq(t, want, a.text)
		assert.Equal(t, status, a.status)
		assert.Equal(t, status, b.get("/catalog/brands").status, "the fault affects every operation")
		b.get("/catalog/brands").ok(200)
		assert.Equal(t, 2, fault.Fired())
		assert.False(t, fault.Active())
	}
	b := start(t, WithInMemory())
	b.fake.Fault(model.Fault{Operation: "oauth.token", Effect: model.EffectErrorStatus, Status: 400, Times: 1})
	b.post("/oauth/token", b.credentials(nil)).rejected(400, `{"error":"invalid_grant","error_description":"Bad Request"}`)
}

func TestProxyFaultSendsHTML(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, way Option) {
		b := start(t, way)
		b.fake.Fault(model.Fault{Effect: model.EffectProxyError, Times: 1})
		b.fake.Fault(model.Fault{Effect: model.EffectProxyError, Times: 1, Status: 504})
		for _, want := range []int{502, 504} {
			resp, err := b.fake.HTTPClient().Do(b.request("GET", "/clinic"))
			require.NoError(t, err)
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			assert.Equal(t, want, resp.StatusCode)
			assert.Equal(t, "text/html", resp.Header.Get("Content-Type"))
			assert.Empty(t, resp.Header.Get("X-Request-Id"))
			assert.Contains(t, string(text), "<h1>"+strconv.Itoa(want))
		}
	})
}

func TestFaultSendsRetryAfter(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	for _, c := range []struct {
		fault model.Fault
		want  string
	}{
		{model.Fault{}, ""},
		{model.Fault{RetryAfter: 1500 * time.Millisecond}, "2"},
		{model.Fault{RetryAfter: 7 * time.Second, RetryAfterDate: true}, "Mon, 02 Mar 2026 09:00:07 GMT"},
	} {
		c.fault.Effect, c.fault.Times = model.EffectTooManyRequests, 1
		b.fake.Fault(c.fault)
		a := b.get("/clinic")
		a.rejected(429, "Rate limit exceeded")
		assert.Equal(t, c.want, a.header.Get("Retry-After"))
	}
	last, _ := lastRequest(b.fake)
	assert.Equal(t, 7*time.Second, last.RetryAfter)
}

// The limiter uses a rolling window on the platform's clock.
func TestRateLimitFaultCountsWindow(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithClock(frozen()))
	limit := b.fake.Fault(model.Fault{Effect: model.EffectRateLimit, Limit: 3, Window: time.Minute})
	b.get("/clinic").ok(200)
	b.fake.Clock.Advance(20 * time.Second)
	b.get("/clinic").ok(200)
	b.get("/catalog/brands").ok(200)
	for range 3 {
		a := b.get("/clinic")
		a.rejected(429, "Rate limit exceeded")
		assert.Equal(t, "40", a.header.Get("Retry-After"), "until the oldest leaves the window")
	}
	assert.Equal(t, 3, limit.Fired())
	b.fake.Clock.Advance(39 * time.Second)
	b.get("/clinic").rejected(429, "Rate limit")
	b.fake.Clock.Advance(time.Second)
	b.get("/clinic").ok(200)
	b.get("/clinic").rejected(429, "Rate limit")
	limit.Remove()
	b.get("/clinic").ok(200)
	b.fake.Fault(model.Fault{Effect: model.EffectRateLimit, Limit: 1, Window: time.Minute, Silent: true})
	b.get("/clinic").ok(200)
	assert.Empty(t, b.get("/clinic").header.Get("Retry-After"))
}

func TestLatencyFaultWaitsInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Operation: "clinic.get", Effect: model.EffectLatency, Delay: 10 * time.Second, Skip: 1, Times: 2})
		for _, want := range []time.Duration{0, 10 * time.Second, 10 * time.Second, 0} {
			began := time.Now()
			b.get("/clinic").ok(200)
			assert.Equal(t, want, time.Since(began))
		}
		hasty := *b.fake.HTTPClient()
		hasty.Timeout = time.Second
		slow := b.fake.Fault(model.Fault{Operation: "patients.create", Effect: model.EffectLatency, Delay: time.Minute})
		_, err := hasty.Do(b.newcomer("ida@example.org"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, slow.Fired())
		synctest.Wait()
		assert.Empty(t, b.get("/clinic/search/patients?query=ida").column("patients", "id"), "a request canceled during the wait changes nothing")
	})
}

// On a frozen clock a slow request waits until the clock is advanced. One advance by the delay
// ends the wait, even if the request had not begun to wait.
func TestLatencyFaultFollowsFrozenClock(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, way Option) {
		b := start(t, way, WithClock(frozen()))
		slow := b.fake.Fault(model.Fault{Effect: model.EffectLatency, Delay: time.Hour})
		done := make(chan int)
		go func() {
			status, _, _ := b.try(b.newcomer("ida@example.org"))
			done <- status
		}()
		for slow.Fired() == 0 {
			select {
			case <-done:
				t.Error("the request did not wait")
				return
			case <-time.After(time.Millisecond):
			}
		}
		b.fake.Clock.Advance(time.Hour)
		assert.Equal(t, 201, <-done)
	})
}

func TestSlowBodyFaultWaitsInBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		whole := b.get("/clinic").text
		for size, piece := range map[int]int{50: 50, 0: 64} {
			b.fake.Fault(model.Fault{Operation: "clinic.get", Effect: model.EffectSlowBody, Delay: time.Second, Bytes: size, Times: 1})
			began := time.Now()
			assert.Equal(t, whole, b.get("/clinic").text)
			assert.Equal(t, time.Duration((len(whole)-1)/piece)*time.Second, time.Since(began))
		}
	})
}

func TestTokenFaultsEndTokens(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	pair := b.fake.Tokens.Issue(model.User{})
	b.token = pair.AccessToken
	b.fake.Fault(model.Fault{Operation: "patients.list", Effect: model.EffectTokenExpired, Skip: 1, Times: 1})
	b.get("/clinic/patients?page[size]=2").ok(200)
	b.get("/clinic/patients?page[size]=2&page[number]=2").rejected(401, "The access token expired")
	renewed := b.renew(pair.RefreshToken).object(200, "oauth")
	b.token = renewed["access_token"].(string)
	b.get("/clinic/patients").ok(200)

	b.fake.Fault(model.Fault{Effect: model.EffectTokenInvalidated, Times: 1})
	b.get("/clinic/patients").rejected(401, "The access token was invalidated")
	b.renew(pair.RefreshToken).rejected(400, "invalid_grant")
	unknown := *b
	unknown.token = "x"
	b.fake.Fault(model.Fault{Effect: model.EffectTokenExpired, Times: 1})
	unknown.get("/clinic").rejected(401, "invalid")
}

// Several faults affect a request: it is slow and then dropped.
func TestLatencyAndDropFaultsCombine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := start(t, WithInMemory())
		slow := b.fake.Fault(model.Fault{Effect: model.EffectLatency, Delay: time.Second})
		drop := b.fake.Fault(model.Fault{Effect: model.EffectDropBeforeCommit, Times: 1})
		never := b.fake.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 500, Operation: "staff.list"})
		began := time.Now()
		_, _, err := b.try(b.newcomer("ida@example.org"))
		require.Error(t, err)
		assert.Equal(t, time.Second, time.Since(began))
		assert.Equal(t, []int{1, 1, 0}, []int{slow.Fired(), drop.Fired(), never.Fired()})
		assert.Equal(t, []*FaultHandle{slow, drop, never}, b.fake.Faults())
		b.fake.ClearFaults()
		assert.Empty(t, b.fake.Faults())
		assert.False(t, slow.Active())
		slow.Remove()
		assert.Equal(t, "drop_before_commit of any", drop.Fault.String())
		assert.Equal(t, "fault-3", never.ID)
		assert.Equal(t, model.EffectErrorStatus, never.Fault.Effect)
	})
}

func TestFaultChanceFollowsSeed(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (rejected []int) {
		b := start(t, WithInMemory())
		b.fake.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: 503, Chance: 0.3, Seed: seed})
		for i := range 200 {
			if b.get("/clinic").status == 503 {
				rejected = append(rejected, i)
			}
		}
		return rejected
	}
	one := run(1)
	assert.InDelta(t, 60, len(one), 25)
	assert.Equal(t, one, run(1), "the same seed gives the same choices")
	assert.NotEqual(t, one, run(2))
}

func TestInvalidFaultPanics(t *testing.T) {
	t.Parallel()
	fake := New(t, WithInMemory())
	for says, f := range map[string]model.Fault{
		`unknown effect "boom"`:                    {Effect: "boom"},
		`did you mean "patients.create"?`:          {Effect: model.EffectLatency, Delay: 1, Operation: "patient.create"},
		`latency has no operation "q"`:             {Effect: model.EffectLatency, Delay: 1, Operation: "q"},
		`latency has no event type "order.placed"`: {Effect: model.EffectLatency, Delay: 1, EventType: model.EventOrderPlaced},
		`delivery_lost has no operation`:           {Effect: model.EffectDeliveryLost, Operation: "clinic.get"},
		`did you mean "order.placed"?`:             {Effect: model.EffectDeliveryLost, EventType: "orders.placed"},
		"Bytes must not be negative":               {Effect: model.EffectTruncatedBody, Bytes: -1},
		"RetryAfter must not be negative":          {Effect: model.EffectTooManyRequests, RetryAfter: -1},
		"Chance must be between":                   {Effect: model.EffectDropBeforeCommit, Chance: 2},
		"needs a Status from 400":                  {Effect: model.EffectErrorStatus, Status: 200},
		"EffectProxyError needs a Status":          {Effect: model.EffectProxyError, Status: 200},
		"EffectSlowBody need a Delay":              {Effect: model.EffectSlowBody},
		"EffectRateLimit needs Limit and Window":   {Effect: model.EffectRateLimit, Limit: 1},
	} {
		require.ErrorContains(t, f.Validate(), says)
		assert.Panics(t, func() { fake.Fault(f) })
	}
	for _, effect := range model.Effects() {
		f := model.Fault{Effect: effect, Delay: 1, Status: 500, Limit: 1, Window: 1}
		assert.NoError(t, f.Validate())
	}
}

// A fault also drops pages. The platform still stores the consent.
func TestFaultsAffectPages(t *testing.T) {
	t.Parallel()
	b := start(t, WithTuning(Tuning{Addr: defaultAddr}))
	b.fake.Fault(model.Fault{Operation: "oauth.authorize", Effect: model.EffectTruncatedBody, Times: 1, Bytes: 20})
	resp, err := b.fake.HTTPClient().Get(b.authorizeURL(nil))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(bufio.NewReader(resp.Body))
	require.Error(t, err)
	assert.True(t, errors.Is(err, io.ErrUnexpectedEOF), "%v", err)
	assert.True(t, bytes.HasPrefix(text, []byte("<!")), "%s", text)
}
