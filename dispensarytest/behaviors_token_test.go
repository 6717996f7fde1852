package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

func TestReadingsOfTokens(t *testing.T) {
	t.Parallel()
	behaving(t, AccessTokenAfterRefreshEnded, func(b *browser) {
		pair := b.fake.Tokens.Issue(model.User{})
		b.token = pair.AccessToken
		b.get("/clinic").ok(200)
		fresh := b.renew(pair.RefreshToken).object(200, "oauth")
		b.get("/clinic").refused(401, "expired")
		b.token = fresh["access_token"].(string)
		b.get("/clinic").ok(200)
	})
	behaving(t, UnknownTokenRevocationRefused, func(b *browser) {
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x"})).refused(400, "invalid_request")
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": b.token})).ok(200)
	})
	behaving(t, RefreshTokenRevocationUnknown, func(b *browser) {
		pair := b.fake.Tokens.Issue(model.User{})
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.RefreshToken})).ok(200)
		b.renew(pair.RefreshToken).ok(200)
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.AccessToken})).ok(200)
		b.renew(pair.RefreshToken).refused(400, "invalid_grant")
	})
	behaving(t, RevocationReachPair, revokesPairs)
	behaving(t, ExpiresInString, func(b *browser) {
		assert.Equal(b.t, "7200", b.renew(b.fake.Tokens.Issue(model.User{}).RefreshToken).ok(200, "oauth", "expires_in"))
	})
	behaving(t, ClinicKeyHeaderClinicEndpoint, func(b *browser) {
		b.get("/clinic").refused(401, "The clinic key is missing")
		b.get("/clinic/patients").ok(200)
	})
	behaving(t, ClinicKeyHeaderAlways, func(b *browser) {
		b.get("/clinic/patients").refused(401, "The clinic key is missing")
		b.key = b.fake.ClinicKey()
		b.get("/clinic/patients").ok(200)
	})
}

func revokesPairs(b *browser) {
	pair := b.fake.Tokens.Issue(model.User{})
	fresh := b.renew(pair.RefreshToken).object(200, "oauth")["access_token"].(string)
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": fresh})).ok(200)
	b.renew(pair.RefreshToken).refused(400, "invalid_grant")
	b.token = fresh
	b.get("/clinic").refused(401, "revoked")
	b.token = pair.AccessToken
	b.get("/clinic").ok(200)
	other := b.fake.Tokens.Issue(model.User{})
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": other.RefreshToken})).ok(200)
	b.token = other.AccessToken
	b.get("/clinic").refused(401, "revoked")
}
