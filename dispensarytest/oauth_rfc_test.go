package dispensarytest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// RFC 6749 5.1: what carries tokens is not kept by anybody on the way.
func TestTokenAnswersAreNotStored(t *testing.T) {
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

// RFC 6749 5.2: a request that cannot be read is refused in the endpoint's own shape.
func TestMalformedTokenRequests(t *testing.T) {
	t.Parallel()
	b := start(t, WithBehavior(UnknownParametersRefused), WithBehavior(ErrorShapeCodedList))
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
	// Unknown parameters are ignored, as RFC 6749 3.2 demands, whatever the behavior.
	b.post("/oauth/token?resource=x", b.credentials(map[string]any{"grant_type": "authorization_code", "code": b.code(model.User{}), "code_verifier": "x"})).ok(200, "oauth")
}

// RFC 6749 4.1.2.1 tells a missing response_type from one that is not supported.
func TestMissingResponseType(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, missing := range []url.Values{{"response_type": nil}, {"response_type": {""}}} {
		got := b.open(b.authorizeURL(missing))
		assert.Equal(t, http.StatusSeeOther, got.status)
		assert.Contains(t, got.header.Get("Location"), "error=invalid_request")
		assert.Contains(t, got.header.Get("Location"), "state=s+t%26te")
	}
}

// RFC 6750 3.1: who sends no token is not told that it is wrong, and who lacks a scope is
// told which.
func TestChallenges(t *testing.T) {
	t.Parallel()
	b := start(t)
	anonymous, err := b.fake.HTTPClient().Do(b.request("GET", "/clinic"))
	require.NoError(t, err)
	assert.Equal(t, `Bearer realm="dispensary"`, decoded(t, anonymous).header.Get("WWW-Authenticate"))
	narrow := b.with("patients:read")
	assert.Equal(t, `Bearer realm="dispensary", error="insufficient_scope", scope="clinic:read"`, narrow.get("/clinic").header.Get("WWW-Authenticate"))
	b.token = "unknown"
	assert.Equal(t, `Bearer realm="dispensary", error="invalid_token"`, b.get("/clinic").header.Get("WWW-Authenticate"))
}
