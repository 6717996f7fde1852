package oauth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
)

func TestExchange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPlatform(grace)
		token, err := newClient(t, p).Exchange(t.Context(), "code-1")
		require.NoError(t, err)
		assert.Equal(t, []map[string]string{{
			"grant_type": "authorization_code", "client_id": "client-1", "client_secret": "hush-hush",
			"redirect_uri": "https://ehr.example/callback?tenant=7", "code": "code-1",
		}}, p.sent())
		assert.Equal(t, []string{"/api/oauth/token"}, p.routes)
		assert.Equal(t, oauth.Token{
			AccessToken: "access-1", RefreshToken: "refresh-1", TokenType: "Bearer",
			CreatedAt: time.Now().UTC(), ConnectedAt: time.Now(), UsedAt: time.Now(), ExpiresAt: time.Now().Add(2 * time.Hour), Lifetime: 2 * time.Hour,
			Scope: "catalog:read clinic:read", ResourceOwner: oauth.ResourceOwner{ID: "prac-1", Type: "Practitioner"},
			Environment: usSandbox,
		}, token)
		assert.Equal(t, []string{"catalog:read", "clinic:read"}, token.Scopes())
	})
}

func TestExchangeFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault fault
		check func(t *testing.T, err error)
	}{
		"used or old code": {answers(401, `{"error":"invalid_grant"}`), func(t *testing.T, err error) {
			require.ErrorIs(t, err, oauth.ErrCodeRefused)
			var answer *api.Error
			require.ErrorAs(t, err, &answer)
			assert.Equal(t, 401, answer.StatusCode)
		}},
		"wrong secret": {answers(401, `{"error":"invalid_client"}`), func(t *testing.T, err error) {
			var refusal *oauth.ConfigError
			require.ErrorAs(t, err, &refusal)
			assert.Equal(t, "invalid_client", refusal.Code)
			assert.Equal(t, "dispensary: the platform refuses the application (invalid_client): check ClientID, ClientSecret and RedirectURL for us/sandbox", err.Error())
		}},
		"lost answer":  {loses, func(t *testing.T, err error) { require.ErrorIs(t, err, api.ErrMaybeApplied) }},
		"server error": {answers(500, ``), func(t *testing.T, err error) { require.ErrorIs(t, err, api.ErrServer) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p := newPlatform(grace)
				p.inject(test.fault)
				token, err := newClient(t, p).Exchange(t.Context(), "code-1")
				test.check(t, err)
				assert.Empty(t, token.AccessToken)
				assert.Len(t, p.sent(), 1, "a code is never sent twice")
			})
		})
	}
	_, err := newClient(t, newPlatform(none)).Exchange(t.Context(), "")
	require.ErrorIs(t, err, api.ErrInvalidArgument)
}

func TestRefresh(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPlatform(immediate)
		client := newClient(t, p)
		old := firstToken(0)
		old.ConfiguredScope = "catalog:read"
		token, err := client.Refresh(t.Context(), old)
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.AccessToken.Reveal())
		assert.Equal(t, "refresh-1", token.RefreshToken.Reveal())
		assert.Equal(t, "catalog:read", token.ConfiguredScope)
		assert.Equal(t, []map[string]string{{
			"grant_type": "refresh_token", "client_id": "client-1", "client_secret": "hush-hush",
			"redirect_uri": "https://ehr.example/callback?tenant=7", "refresh_token": "refresh-0",
		}}, p.sent())

		_, err = client.Refresh(t.Context(), old)
		e := requireReauthorize(t, err, oauth.ReasonInvalidGrant)
		assert.Equal(t, "dispensary: the user of a us/sandbox token must authorize again: invalid_grant", e.Error())
		_, err = client.Refresh(t.Context(), oauth.Token{Environment: usSandbox})
		requireReauthorize(t, err, oauth.ReasonNoRefreshToken)
		_, err = client.Refresh(t.Context(), oauth.Token{Environment: caSandbox})
		require.ErrorIs(t, err, api.ErrWrongEnvironment)
		assert.Len(t, p.sent(), 2)
	})
}

func TestRevoke(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newPlatform(none)
		client := newClient(t, p)
		p.inject(answers(200, `{}`), answers(401, `{"error":"invalid_client"}`), answers(200, ``))
		require.NoError(t, client.Revoke(t.Context(), firstToken(-time.Hour)))
		assert.Equal(t, []map[string]string{{"client_id": "client-1", "client_secret": "hush-hush", "token": "access-0"}}, p.sent())
		assert.Equal(t, []string{"/api/oauth/revoke"}, p.routes)
		var refusal *oauth.ConfigError
		require.ErrorAs(t, client.Revoke(t.Context(), firstToken(0)), &refusal)
		require.NoError(t, client.Revoke(t.Context(), firstToken(0)), "an empty answer is fine too")

		token := firstToken(0)
		token.Environment = caSandbox
		require.ErrorIs(t, client.Revoke(t.Context(), token), api.ErrWrongEnvironment)
		require.ErrorIs(t, client.Revoke(t.Context(), oauth.Token{Environment: usSandbox}), api.ErrInvalidArgument)
	})
}
