package webhook_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/safecall"
	"github.com/dispensary-go/dispensary/internal/testkit/receivertest"
	"github.com/dispensary-go/dispensary/webhook"
)

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
	r := tenants(t, func(c *webhook.HandlerConfig) { c.AnswerUnsignedProbe = true })
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
	_, err := webhook.NewTenant(webhook.TenantConfig{Secrets: []api.Secret{api.Secret{}, api.NewSecret(" ")}})
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
