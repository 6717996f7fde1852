package dispensarytest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/behavior"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/httpapi"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/tokens"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// code walks through the authorize page and returns the code.
func (b *browser) code(user model.User) string {
	b.t.Helper()
	back, err := b.fake.Approve(b.authorizeURL(nil), user)
	require.NoError(b.t, err)
	return back.Query().Get("code")
}

func (b *browser) exchange(code string) response {
	return b.post("/oauth/token", b.credentials(map[string]any{"grant_type": "authorization_code", "code": code}))
}

func (b *browser) renew(refresh any) response {
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
	for name, got := range map[string]response{
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
		for name, got := range map[string]response{
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

// A code is valid for one exchange, even with concurrent requests.
func TestCodeIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	code := b.code(model.User{})
	assertOneWinner(t, func() int { return b.exchange(code).status })
}

// assertOneWinner makes 20 concurrent calls. Exactly one must respond with 200.
func assertOneWinner(t *testing.T, call func() int) {
	t.Helper()
	var group sync.WaitGroup
	var statuses [20]int
	for i := range statuses {
		group.Go(func() { statuses[i] = call() })
	}
	group.Wait()
	slices.Sort(statuses[:])
	assert.Equal(t, http.StatusOK, statuses[0])
	assert.NotEqual(t, http.StatusOK, statuses[1])
}

// With immediate rotation a refresh token is valid once, even for concurrent requests.
func TestImmediateRotationHasOneWinner(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithBehavior(behavior.RefreshRotationImmediate))
	refresh := b.fake.Tokens.Issue(model.User{}).RefreshToken
	assertOneWinner(t, func() int { return b.renew(refresh).status })
}

// A call with an expired token does not count as its use, but the first other call does.
func TestExpiredTokenKeepsGracePeriod(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithBehavior(behavior.RefreshRotationGrace), WithClock(frozen()))
	old := b.fake.Tokens.Issue(model.User{}).RefreshToken
	b.token = b.renew(old).ok(200, "oauth", "access_token").(string)
	b.fake.Clock.Advance(tokens.TokenLifetime)
	b.get("/clinic").rejected(401, "expired")
	b.token = b.renew(old).ok(200, "oauth", "access_token").(string)
	b.get("/clinic").ok(200)
	b.renew(old).rejected(400, "invalid_grant")
}

func TestRevocationRequiresApplication(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	pair := b.fake.Tokens.Issue(model.User{})
	for field, wrong := range map[string]any{"client_id": "x", "client_secret": "x"} {
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.AccessToken, field: wrong})).rejected(401, "invalid_client")
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.AccessToken, field: nil})).rejected(400, "invalid_request")
	}
	b.post("/oauth/revoke", b.credentials(nil)).rejected(400, "invalid_request")
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": "never seen"})).ok(200)
	b.token = pair.AccessToken
	b.get("/clinic").ok(200)
}

func TestInvalidAuthorizationHeadersAreRejected(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	for header, status := range map[string]int{
		"Bearer " + b.token: 200, "bearer " + b.token: 200, "BEARER " + b.token: 200,
		b.token: 401, "Bearer": 401, "Bearer ": 401, "Basic " + b.token: 401, "Token " + b.token: 401, "Bearer " + b.token + "x": 401, "Bearer  " + b.token: 401,
	} {
		got := b.fetch("GET", b.fake.Site().BaseURL+"/clinic", "", "Authorization", header)
		assert.Equal(t, status, got.status, "%q", header)
		assert.Equal(t, status == 401, strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer"), "%q", header)
	}
	b.get("/clinic?access_token=" + b.token).ok(200)
	last, _ := lastRequest(b.fake)
	assert.Equal(t, "access_token", last.Unknown[0].Name, "a token in the query is not used")
}

// The clinic key can be used any number of times, and is checked before the scope.
func TestClinicKeyActivatesIntegration(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory(), WithTuning(Tuning{Integrations: 2}))
	keys := b.fake.ClinicKeys()
	require.Len(t, keys, 2)
	assert.Equal(t, keys[0], b.fake.ClinicKey())
	second := *b
	second.key = keys[1]
	id := second.get("/clinic").object(200, "clinic")
	assert.NotEmpty(t, id["integration_activated_at"])
	first := b.get("/clinic").object(200, "clinic")
	assert.NotEqual(t, id["integration_id"], first["integration_id"], "the key selects the integration")
	assert.Nil(t, first["integration_activated_at"], "the other integration is still inactive")

	narrow := b.with("catalog:read")
	narrow.key = keys[0]
	narrow.get("/clinic").rejected(403, "clinic:read")
	assert.NotNil(t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"), "a rejected request counts as the first use")
	assert.Len(t, b.fake.Events(), 2)
	for range 3 {
		second.get("/catalog/brands").ok(200)
	}
	assert.Len(t, b.fake.Events(), 2, "once each")

	_, err := b.fake.Clinics.RevokeKey(keys[1])
	require.NoError(t, err)
	for _, path := range []string{"/clinic", "/catalog/brands", "/clinic/patients"} {
		second.get(path).rejected(401, "The clinic key was revoked")
		b.get(path).ok(200)
	}
}

func TestRevokeDisconnectsOneUser(t *testing.T) {
	t.Parallel()
	b := start(t, WithInMemory())
	users := b.fake.Users()
	kept, ended := b.fake.Tokens.Issue(users[0]), b.fake.Tokens.Issue(users[1])
	older, _ := b.fake.Tokens.Issue(users[1], "clinic:read"), b.fake.Tokens.Issue(users[2])
	open, redeemed := b.code(users[1]), b.code(users[0])

	b.fake.Tokens.Revoke(users[1])
	for _, pair := range []model.Token{ended, older} {
		b.token = pair.AccessToken
		b.get("/clinic").rejected(401, "The access token was revoked")
		b.renew(pair.RefreshToken).rejected(400, "invalid_grant")
	}
	b.exchange(open).rejected(400, "invalid_grant")
	b.token = kept.AccessToken
	b.get("/clinic").ok(200)
	b.renew(kept.RefreshToken).ok(200)
	b.get("/clinic").ok(200) // the earlier access token stays valid
	b.exchange(redeemed).ok(200)

	b.exchange(b.code(users[1])).ok(200, "oauth", "access_token") // connects again
	b.fake.Tokens.Revoke(model.User{})
	b.get("/clinic").rejected(401, "revoked")
	assert.PanicsWithValue(t, `dispensarytest: there is no user "x@example.com"; see Server.Users`, func() {
		b.fake.Tokens.Revoke(model.User{Email: "x@example.com"})
	})
}
