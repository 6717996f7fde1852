package dispensarytest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadingsOfTokens(t *testing.T) {
	t.Parallel()
	silent(t, SilenceAccessAfterRefresh, "ended", func(b *browser) {
		pair := b.fake.IssueToken(User{})
		b.token = pair.AccessToken
		b.get("/clinic").ok(200)
		fresh := b.renew(pair.RefreshToken).object(200, "oauth")
		b.get("/clinic").refused(401, "expired")
		b.token = fresh["access_token"].(string)
		b.get("/clinic").ok(200)
	})
	silent(t, SilenceUnknownToken, "refused", func(b *browser) {
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": "x"})).refused(400, "invalid_request")
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": b.token})).ok(200)
	})
	silent(t, SilenceRefreshTokenRevoked, "unknown", func(b *browser) {
		pair := b.fake.IssueToken(User{})
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.RefreshToken})).ok(200)
		b.renew(pair.RefreshToken).ok(200)
		b.post("/oauth/revoke", b.credentials(map[string]any{"token": pair.AccessToken})).ok(200)
		b.renew(pair.RefreshToken).refused(400, "invalid_grant")
	})
	silent(t, SilenceRevocationReach, "pair", revokesPairs)
	silent(t, SilenceExpiresIn, "string", func(b *browser) {
		assert.Equal(b.t, "7200", b.renew(b.fake.IssueToken(User{}).RefreshToken).ok(200, "oauth", "expires_in"))
	})
	silent(t, SilenceRefreshRotation, "immediate", func(b *browser) {
		pair := b.fake.IssueToken(User{})
		b.renew(pair.RefreshToken).ok(200)
		b.renew(pair.RefreshToken).refused(400, "invalid_grant")
		require.NoError(b.t, b.fake.SetReading(SilenceRefreshRotation, "none"))
	})
	silent(t, SilenceClinicKeyHeader, "clinic-endpoint", func(b *browser) {
		b.get("/clinic").refused(401, "The clinic key is missing")
		b.get("/clinic/patients").ok(200)
	})
	silent(t, SilenceClinicKeyHeader, "always", func(b *browser) {
		b.get("/clinic/patients").refused(401, "The clinic key is missing")
		b.key = b.fake.ClinicKey()
		b.get("/clinic/patients").ok(200)
	})
	silent(t, SilenceIntegrationActivation, "first-key", func(b *browser) {
		assert.Nil(b.t, b.get("/clinic").ok(200, "clinic", "integration_activated_at"))
	})
}

func revokesPairs(b *browser) {
	pair := b.fake.IssueToken(User{})
	fresh := b.renew(pair.RefreshToken).object(200, "oauth")["access_token"].(string)
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": fresh})).ok(200)
	b.renew(pair.RefreshToken).refused(400, "invalid_grant")
	b.token = fresh
	b.get("/clinic").refused(401, "revoked")
	b.token = pair.AccessToken
	b.get("/clinic").ok(200)
	other := b.fake.IssueToken(User{})
	b.post("/oauth/revoke", b.credentials(map[string]any{"token": other.RefreshToken})).ok(200)
	b.token = other.AccessToken
	b.get("/clinic").refused(401, "revoked")
}
