package dispensarytest

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// code walks through the authorize page and returns the code.
func (b *browser) code(user model.User) string {
	b.t.Helper()
	back, err := b.fake.Approve(b.authorizeURL(nil), user)
	require.NoError(b.t, err)
	return back.Query().Get("code")
}

func (b *browser) exchange(code string) answer {
	return b.post("/oauth/token", b.credentials(map[string]any{"grant_type": "authorization_code", "code": code}))
}

func (b *browser) renew(refresh any) answer {
	return b.post("/oauth/token", b.credentials(map[string]any{"grant_type": "refresh_token", "refresh_token": refresh}))
}

func TestCodeIsExchangedForTokens(t *testing.T) {
	t.Parallel()
	b := start(t)
	user := b.fake.Users()[2]
	got := b.exchange(b.code(user))
	oauth := got.object(200, "oauth")
	assert.ElementsMatch(t, []string{"access_token", "token_type", "expires_in", "refresh_token", "scope", "created_at", "resource_owner"}, keysOf(oauth))
	assert.Equal(t, map[string]any{"id": user.ID, "type": "Staff"}, oauth["resource_owner"])
	assert.Equal(t, "Bearer", oauth["token_type"])
	assert.EqualValues(t, 7200, oauth["expires_in"])

	b.token = oauth["access_token"].(string)
	b.get("/clinic").ok(200, "clinic")
	last, _ := lastRequest(b.fake)
	assert.Equal(t, user.ID, last.UserID)
}

func TestTokenEndpointRejectsInvalidRequests(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, c := range map[string]struct {
		change map[string]any
		status int
		code   string
	}{
		"no grant type":    {map[string]any{"grant_type": nil}, 400, "invalid_request"},
		"other grant type": {map[string]any{"grant_type": "password"}, 400, "unsupported_grant_type"},
		"no client":        {map[string]any{"client_id": nil}, 400, "invalid_request"},
		"wrong secret":     {map[string]any{"client_secret": "guess"}, 401, "invalid_client"},
		"wrong redirect":   {map[string]any{"redirect_uri": "http://127.0.0.1/callback/"}, 400, "invalid_grant"},
		"unknown code":     {map[string]any{"code": "nope"}, 400, "invalid_grant"},
		"no code":          {map[string]any{"code": nil}, 400, "invalid_request"},
		"no refresh token": {map[string]any{"grant_type": "refresh_token"}, 400, "invalid_request"},
		"missing redirect": {map[string]any{"redirect_uri": nil}, 400, "invalid_request"},
		"wrong refresh":    {map[string]any{"grant_type": "refresh_token", "refresh_token": "x"}, 400, "invalid_grant"},
	} {
		change := map[string]any{"grant_type": "authorization_code", "code": "x"}
		maps.Copy(change, c.change)
		got := b.post("/oauth/token", b.credentials(change))
		assert.Equal(t, c.status, got.status, name)
		assert.Equal(t, c.code, got.body["error"], name)
	}
}

func TestClinicTokensBelongToClinic(t *testing.T) {
	t.Parallel()
	b := start(t, WithTuning(Tuning{ClinicTokens: true}))
	owner := b.exchange(b.code(model.User{})).object(200, "oauth", "resource_owner")
	assert.Equal(t, map[string]any{"id": b.fake.Clinics.All()[0].ID, "type": "Clinic"}, owner)
}

// RFC 6749 5.1: responses with tokens forbid caching.
func TestTokenResponsesForbidCaching(t *testing.T) {
	t.Parallel()
	b := start(t)
	for name, got := range map[string]answer{
		"a token": b.exchange(b.code(model.User{})), "a refused code": b.exchange("x"),
		"a revocation": b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x"})), "no JSON": b.send("POST", "/oauth/revoke", "{"),
	} {
		assert.Equal(t, "no-store", got.header.Get("Cache-Control"), name)
		assert.Equal(t, "no-cache", got.header.Get("Pragma"), name)
	}
	assert.Empty(t, b.get("/clinic").header.Get("Cache-Control"))
}

// RFC 6749 5.2: an unreadable request is rejected in the endpoint's own format.
func TestMalformedTokenRequestsAreRejected(t *testing.T) {
	t.Parallel()
	b := start(t, WithBehavior(behavior.UnknownParametersRejected), WithBehavior(behavior.ErrorShapeCodedList))
	for _, path := range []string{"/oauth/token", "/oauth/revoke"} {
		for name, got := range map[string]answer{
			"no JSON": b.send("POST", path, "{"), "no object": b.send("POST", path, "[]"), "two objects": b.send("POST", path, "{} {}"),
			"nothing": b.send("POST", path, ""), "a query that is none": b.send("POST", path+"?a=%zz", map[string]any{}),
		} {
			assert.Equal(t, 400, got.status, name)
			assert.Equal(t, "invalid_request", got.body["error"], name)
			assert.NotEmpty(t, got.body["error_description"], name)
		}
		big := b.send("POST", path, `{"client_id":"`+strings.Repeat("x", httpapi.MaxBody)+`"}`)
		assert.Equal(t, 413, big.status)
		assert.Equal(t, "invalid_request", big.body["error"])
	}
	// Unknown parameters are ignored under every behavior, as RFC 6749 3.2 demands.
	b.post("/oauth/token?resource=x", b.credentials(map[string]any{"grant_type": "authorization_code", "code": b.code(model.User{}), "code_verifier": "x"})).ok(200, "oauth")
}

// RFC 6750 3.1: the challenge for a request without a token contains no error. The challenge
// for a missing scope names the scope.
func TestRejectionsContainChallenges(t *testing.T) {
	t.Parallel()
	b := start(t)
	assert.Equal(t, `Bearer realm="dispensary"`, b.fetch("GET", b.fake.Site().BaseURL+"/clinic", "").header.Get("WWW-Authenticate"))
	narrow := b.with("patients:read")
	assert.Equal(t, `Bearer realm="dispensary", error="insufficient_scope", scope="clinic:read"`, narrow.get("/clinic").header.Get("WWW-Authenticate"))
	b.token = "unknown"
	assert.Equal(t, `Bearer realm="dispensary", error="invalid_token"`, b.get("/clinic").header.Get("WWW-Authenticate"))
}
