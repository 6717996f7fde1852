package webhook_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/events"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
	"github.com/dispensary-go/dispensary/webhook/internal/safecall"
)

func TestHandlerVerifiesRequests(t *testing.T) {
	t.Parallel()
	stamp := strconv.FormatInt(now.Unix(), 10)
	good := mac(secret, stamp, orderBody)
	for _, c := range []struct {
		name    string
		method  string // POST if empty
		header  string
		body    string
		config  func(*webhook.HandlerConfig)
		status  int             // 401 if empty and err is set
		outcome webhook.Outcome // accepted if empty and err is nil
		err     error
		text    string // part of the error text
	}{
		{name: "valid", header: sign(secret, now, orderBody), body: orderBody},
		{name: "rotated secret", header: sign(oldSecret, now, orderBody), body: orderBody},
		{name: "two v1, second matches", header: "t=" + stamp + ",v1=" + strings.Repeat("0", 64) + ",v1=" + good, body: orderBody},
		{name: "oldest allowed", header: sign(secret, now.Add(-5*time.Minute), orderBody), body: orderBody},
		{name: "newest allowed", header: sign(secret, now.Add(5*time.Minute), orderBody), body: orderBody},
		{name: "unknown type", header: sign(secret, now, `{"event":{"id":"e","type":"galaxy.born"}}`), body: `{"event":{"id":"e","type":"galaxy.born"}}`},
		{name: "event_payload", header: sign(secret, now, `{"event_payload":`+orderBody+`}`), body: `{"event_payload":` + orderBody + `}`},
		{name: "bare event", header: sign(secret, now, `{"id":"e","type":"order.placed"}`), body: `{"id":"e","type":"order.placed"}`},
		{name: "signed probe", header: sign(secret, now, ""), outcome: webhook.OutcomeProbe},
		{name: "unsigned probe with the option", config: respondUnsigned, outcome: webhook.OutcomeProbe},

		{name: "unsigned probe", err: webhook.ErrSignatureMissing},
		{name: "badly signed probe with the option", header: sign("other", now, ""), config: respondUnsigned, err: webhook.ErrSignatureMismatch},
		{name: "unsigned body with the option", body: orderBody, config: respondUnsigned, err: webhook.ErrSignatureMissing},
		{name: "missing signature", body: orderBody, err: webhook.ErrSignatureMissing},
		{name: "malformed signature", header: "sha256=" + good[:10] + ",x", body: orderBody, err: webhook.ErrSignatureMalformed},
		{name: "signed with the challenge", header: sign(challenge, now, orderBody), body: orderBody, err: webhook.ErrSignatureMismatch},
		{name: "changed body", header: sign(secret, now, orderBody), body: strings.Replace(orderBody, "R100", "R101", 1), err: webhook.ErrSignatureMismatch},
		{name: "body and probe signature", header: sign(secret, now, ""), body: orderBody, err: webhook.ErrSignatureMismatch},
		{name: "stale", header: sign(secret, now.Add(-5*time.Minute-time.Second), orderBody), body: orderBody, err: webhook.ErrTimestampTooOld},
		{name: "future", header: sign(secret, now.Add(5*time.Minute+time.Second), orderBody), body: orderBody, err: webhook.ErrTimestampTooNew},
		{name: "stale with a wider tolerance", header: sign(secret, now.Add(-time.Hour), orderBody), body: orderBody,
			config: func(c *webhook.HandlerConfig) { c.Tolerance = time.Hour }},
		{name: "wrong method", method: http.MethodGet, header: sign(secret, now, ""), status: 405, err: webhook.ErrMethod},
		{name: "PUT", method: http.MethodPut, header: sign(secret, now, orderBody), body: orderBody, status: 405, err: webhook.ErrMethod},
		{name: "body over the limit", header: sign(secret, now, orderBody), body: orderBody,
			config: func(c *webhook.HandlerConfig) { c.MaxBody = 100 }, status: 413, err: webhook.ErrBodyTooLarge},
		{name: "body at the limit", header: sign(secret, now, orderBody), body: orderBody,
			config: func(c *webhook.HandlerConfig) { c.MaxBody = int64(len(orderBody)) }},
		{name: "signed, not JSON", header: sign(secret, now, "event=1"), body: "event=1", status: 400, err: events.ErrMalformed},
		{name: "signed, no event", header: sign(secret, now, `{"event":{"id":"e"}}`), body: `{"event":{"id":"e"}}`, status: 400, err: events.ErrNoEvent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, c.config)
			w := r.serve(t, request(cmp.Or(c.method, http.MethodPost), c.header, c.body))
			require.Len(t, r.observed, 1)
			require.ErrorIs(t, r.last().Err, c.err)
			assert.Equal(t, w.Code == http.StatusMethodNotAllowed, w.Header().Get("Allow") == http.MethodPost)
			if c.err != nil {
				assert.Equal(t, cmp.Or(c.status, http.StatusUnauthorized), w.Code)
				assert.Equal(t, webhook.OutcomeRejected, r.last().Outcome)
				assert.ErrorContains(t, r.last().Err, c.text)
				assert.Empty(t, r.accepted)
				return
			}
			assert.Equal(t, http.StatusOK, w.Code)
			assert.Equal(t, cmp.Or(c.outcome, webhook.OutcomeAccepted), r.last().Outcome)
			assert.Equal(t, c.outcome == "", len(r.accepted) == 1)
		})
	}
}

func respondUnsigned(c *webhook.HandlerConfig) { c.RespondUnsignedProbe = true }

func TestHandlerAcknowledgesDuplicates(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	for i, c := range []struct {
		body    string
		outcome webhook.Outcome
		stored  int
	}{
		{orderBody, webhook.OutcomeAccepted, 1},
		{orderBody, webhook.OutcomeDuplicate, 1},
		{strings.Replace(orderBody, "in_1", "in_2", 1), webhook.OutcomeAccepted, 2}, // another integration
		{strings.Replace(orderBody, "evt_1", "evt_2", 1), webhook.OutcomeAccepted, 3},
	} {
		w := r.serve(t, request(http.MethodPost, sign(secret, now, c.body), c.body))
		assert.Equal(t, http.StatusOK, w.Code, i)
		assert.Equal(t, c.outcome, r.last().Outcome, i)
		assert.Len(t, r.accepted, c.stored, i)
	}
}

func TestHandlerRejectsSecondHeader(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	req := request(http.MethodPost, sign(secret, now, orderBody), orderBody)
	req.Header.Add(webhook.SignatureHeader, "t=1,v1=00")
	assert.Equal(t, http.StatusUnauthorized, r.serve(t, req).Code)
	require.ErrorIs(t, r.last().Err, webhook.ErrSignatureMalformed)
	assert.ErrorContains(t, r.last().Err, "more than once")
}

func TestHandlerRejectsWithoutReadingBody(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*http.Request){
		"method":    func(r *http.Request) { r.Method = http.MethodDelete },
		"missing":   func(r *http.Request) { r.Header.Del(webhook.SignatureHeader) },
		"malformed": func(r *http.Request) { r.Header.Set(webhook.SignatureHeader, "v1") },
		"stale":     func(r *http.Request) { r.Header.Set(webhook.SignatureHeader, sign(secret, now.Add(-time.Hour), "")) },
		"length":    func(r *http.Request) { r.ContentLength = 2 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			req := request(http.MethodPost, sign(secret, now, orderBody), orderBody)
			req.Body = unreadable{t}
			change(req)
			assert.GreaterOrEqual(t, r.serve(t, req).Code, 400)
		})
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the handler must not read the body")
	return 0, errors.New("unreadable")
}

func (unreadable) Close() error { return nil }

func TestNewHandlerRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*webhook.HandlerConfig){
		"Environment":                 func(c *webhook.HandlerConfig) { c.Environment = "us/" },
		"Secrets is empty":            func(c *webhook.HandlerConfig) { c.Secrets = nil },
		"Secrets[1] is empty":         func(c *webhook.HandlerConfig) { c.Secrets[1] = api.Secret{} },
		"Secrets[0] begins or ends":   func(c *webhook.HandlerConfig) { c.Secrets[0] = api.NewSecret(c.Secrets[0].Reveal() + "\n") },
		"Secrets[1] equals Challenge": func(c *webhook.HandlerConfig) { c.Secrets[1] = api.NewSecret(challenge) },
		"Challenge is empty":          func(c *webhook.HandlerConfig) { c.Challenge = api.Secret{} },
		"Challenge begins or ends":    func(c *webhook.HandlerConfig) { c.Challenge = api.NewSecret(" x") },
		"Inbox is missing":            func(c *webhook.HandlerConfig) { c.Inbox = nil },
		"Tolerance is negative":       func(c *webhook.HandlerConfig) { c.Tolerance = -1 },
		"MaxBody is negative":         func(c *webhook.HandlerConfig) { c.MaxBody = -1 },
		"BodyTimeout is negative":     func(c *webhook.HandlerConfig) { c.BodyTimeout = -1 },
		"AcceptTimeout is negative":   func(c *webhook.HandlerConfig) { c.AcceptTimeout = -1 },
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c := webhook.HandlerConfig{Environment: sandbox, Challenge: api.NewSecret(challenge), Inbox: inboxFunc(nil)}
			c.Secrets = append(c.Secrets, api.NewSecret(secret), api.NewSecret(oldSecret))
			change(&c)
			_, err := webhook.NewHandler(c)
			require.ErrorContains(t, err, text)
			assert.NotContains(t, err.Error(), secret)
			assert.NotContains(t, err.Error(), challenge)
		})
	}
}

func TestHandlerEncodesChallenge(t *testing.T) {
	t.Parallel()
	handler, err := webhook.NewHandler(webhook.HandlerConfig{
		Environment: sandbox, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(`a"b\c`), Inbox: inboxFunc(nil),
		Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, request(http.MethodPost, sign(secret, now, ""), ""))
	assert.JSONEq(t, `{"challenge":"a\"b\\c"}`, w.Body.String())
}

// tenants returns a handler for one tenant in each country. The path selects the tenant.
func tenants(t *testing.T, change func(*webhook.HandlerConfig)) *fixture {
	t.Helper()
	known := map[string]*webhook.Tenant{}
	for region, environment := range map[string]api.Environment{"us": api.USSandbox, "ca": api.CanadaSandbox} {
		tenant, err := webhook.NewTenant(webhook.TenantConfig{
			Name: "clinic " + region, Environment: environment,
			Secrets: []api.Secret{api.NewSecret(secret + region)}, Challenge: api.NewSecret(challenge + region),
		})
		require.NoError(t, err)
		known["/"+region] = tenant
	}
	return newFixture(t, func(c *webhook.HandlerConfig) {
		c.Environment, c.Secrets, c.Challenge = "", nil, api.Secret{}
		c.Tenant = func(r *http.Request) (*webhook.Tenant, error) {
			switch r.URL.Path {
			case "/broken":
				return nil, errors.New("database is down")
			case "/panics":
				panic(marked)
			}
			return known[r.URL.Path], nil
		}
		if change != nil {
			change(c)
		}
	})
}

func (r *fixture) post(t *testing.T, path, header, body string) *httptest.ResponseRecorder {
	t.Helper()
	w, req := httptest.NewRecorder(), request(http.MethodPost, header, body)
	req.URL.Path = path
	r.ServeHTTP(w, req)
	return w
}

func TestHandlerServesSeveralTenants(t *testing.T) {
	t.Parallel()
	r := tenants(t, nil)
	for _, region := range []string{"us", "ca"} {
		w := r.post(t, "/"+region, sign(secret+region, now, orderBody), orderBody)
		assert.Equal(t, http.StatusOK, w.Code)
		assert.JSONEq(t, `{"challenge":"`+challenge+region+`"}`, w.Body.String())
		assert.Equal(t, webhook.OutcomeAccepted, r.last().Outcome, "the environment is part of the key")
		assert.Equal(t, region+"/sandbox", r.last().Key.Environment.String())
		assert.Equal(t, "clinic "+region, r.last().Tenant)
	}
	w := r.post(t, "/us", sign(secret+"ca", now, orderBody), orderBody)
	assert.Equal(t, http.StatusUnauthorized, w.Code, "the secret of another tenant must fail")
	require.ErrorIs(t, r.last().Err, webhook.ErrSignatureMismatch)
	assert.Len(t, r.accepted, 2)
}

func TestHandlerRejectsUnknownTenants(t *testing.T) {
	t.Parallel()
	r := tenants(t, func(c *webhook.HandlerConfig) { c.RespondUnsignedProbe = true })
	for _, c := range []struct{ header, body string }{
		{sign(secret+"us", now, orderBody), orderBody}, {sign(secret, now, ""), ""}, {"", ""}, {sign("", now, orderBody), orderBody},
	} {
		w := r.post(t, "/mars", c.header, c.body)
		assert.Equal(t, http.StatusUnauthorized, w.Code)
		assert.NotContains(t, w.Body.String(), challenge)
		require.ErrorIs(t, r.last().Err, webhook.ErrUnknownTenant)
		assert.Empty(t, r.last().Tenant)
	}
	w := r.post(t, "/ca", "", "")
	assert.JSONEq(t, `{"challenge":"`+challenge+`ca"}`, w.Body.String(), "a probe of a known tenant gets its challenge")
	w = r.post(t, "/mars", "t=1,v1=2", orderBody)
	assert.Equal(t, http.StatusUnauthorized, w.Code)
	require.ErrorIs(t, r.last().Err, webhook.ErrSignatureMalformed, "the tenant must not be looked up")
}

func TestTenantLookupFailureCausesRedelivery(t *testing.T) {
	t.Parallel()
	r := tenants(t, nil)
	for _, path := range []string{"/broken", "/panics"} {
		w := r.post(t, path, sign(secret+"us", now, orderBody), orderBody)
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Equal(t, webhook.OutcomeUnavailable, r.last().Outcome)
		require.ErrorIs(t, r.last().Err, webhook.ErrTenant)
		assert.Equal(t, path == "/panics", errors.Is(r.last().Err, safecall.ErrPanic))
		assert.NotContains(t, r.last().Err.Error(), marked)
	}

	r = tenants(t, func(c *webhook.HandlerConfig) { c.Inbox = nil })
	w := r.post(t, "/us", sign(secret+"us", now, orderBody), orderBody)
	assert.Equal(t, http.StatusServiceUnavailable, w.Code, "no tenant has an inbox")
	require.ErrorIs(t, r.last().Err, webhook.ErrTenant)
}

func TestTenantUsesOwnInbox(t *testing.T) {
	t.Parallel()
	own := &fixture{}
	tenant, err := webhook.NewTenant(webhook.TenantConfig{
		Environment: sandbox, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge), Inbox: inboxFunc(own.accept),
	})
	require.NoError(t, err)
	r := tenants(t, func(c *webhook.HandlerConfig) {
		c.Tenant = func(*http.Request) (*webhook.Tenant, error) { return tenant, nil }
	})
	w := r.post(t, "/", sign(secret, now, orderBody), orderBody)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Len(t, own.accepted, 1)
	assert.Empty(t, r.accepted)
}

// TestNewHandlerRejectsInvalidConfig has the other cases, because both constructors share their
// checks.
func TestNewTenantRejectsInvalidConfig(t *testing.T) {
	t.Parallel()
	good := webhook.TenantConfig{Environment: sandbox, Secrets: []api.Secret{api.NewSecret(secret)}, Challenge: api.NewSecret(challenge)}
	_, err := webhook.NewTenant(webhook.TenantConfig{Secrets: []api.Secret{{}, api.NewSecret(" ")}})
	for _, field := range []string{"TenantConfig.Environment", "TenantConfig.Challenge", "TenantConfig.Secrets[0]", "TenantConfig.Secrets[1]"} {
		require.ErrorContains(t, err, field, "the error must list all problems")
	}
	_, err = webhook.NewHandler(webhook.HandlerConfig{
		Environment: sandbox, Inbox: inboxFunc((&fixture{}).accept),
		Tenant: func(*http.Request) (*webhook.Tenant, error) { return nil, nil },
	})
	require.ErrorContains(t, err, "HandlerConfig.Tenant cannot be combined")
	tenant, err := webhook.NewTenant(good)
	require.NoError(t, err)
	var out bytes.Buffer
	receivertest.Say(&out, tenant)
	receivertest.Say(&out, tenants(t, nil).Handler)
	silent(t, out.String())
	assert.Equal(t, "webhook.Handler(tenants)", fmt.Sprint(tenants(t, nil).Handler))
}
