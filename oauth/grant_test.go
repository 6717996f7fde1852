package oauth_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

func TestExchangeReturnsToken(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		p := oauthtest.NewPlatform(oauthtest.RotateOnFirstUse)
		token, err := oauthtest.NewClient(t, p).Exchange(t.Context(), api.NewSecret("code-1"))
		require.NoError(t, err)
		assert.Equal(t, []map[string]string{{
			"grant_type": "authorization_code", "client_id": "client-1", "client_secret": "hush-hush",
			"redirect_uri": "https://ehr.example/callback?tenant=7", "code": "code-1",
		}}, p.Sent())
		assert.Equal(t, []string{"/api/oauth/token"}, p.Routes())
		assert.Equal(t, oauth.Token{
			AccessToken: api.NewSecret("access-1"), RefreshToken: api.NewSecret("refresh-1"), TokenType: "Bearer",
			CreatedAt: time.Now().UTC(), ConnectedAt: time.Now(), UsedAt: time.Now(), ExpiresAt: time.Now().Add(2 * time.Hour), Lifetime: 2 * time.Hour,
			Scope: "catalog:read clinic:read", ResourceOwner: oauth.ResourceOwner{ID: "prac-1", Type: "Practitioner"},
			Environment: oauthtest.USSandbox,
		}, token)
		assert.Equal(t, []string{"catalog:read", "clinic:read"}, token.Scopes())
	})
}

// The monotonic clock stops while a machine sleeps. Without this, a token that expired during
// sleep would count as valid.
func TestTokenTimesHaveNoMonotonicReading(t *testing.T) {
	t.Parallel()
	client := oauthtest.NewClient(t, oauthtest.NewPlatform(oauthtest.RotateNever))
	first, err := client.Exchange(t.Context(), api.NewSecret("code-1"))
	require.NoError(t, err)
	old := oauthtest.FirstToken(0)
	second, err := client.Refresh(t.Context(), old)
	require.NoError(t, err)
	foreign := oauth.FromOAuth2(tokenFunc(func() (*oauth2.Token, error) {
		return &oauth2.Token{AccessToken: "a", Expiry: time.Now().Add(time.Hour)}, nil
	}), oauthtest.USSandbox)
	third, err := foreign.Token(t.Context())
	require.NoError(t, err)
	for name, at := range map[string]time.Time{
		"ExpiresAt": first.ExpiresAt, "ConnectedAt": first.ConnectedAt, "UsedAt": first.UsedAt,
		"ExpiresAt after a refresh": second.ExpiresAt, "ExpiresAt of x/oauth2": third.ExpiresAt,
	} {
		assert.NotContains(t, at.String(), "m=", name)
	}
}

// The form of the response must not lose a granted pair.
func TestRefreshAcceptsByteOrderMark(t *testing.T) {
	t.Parallel()
	p := oauthtest.NewPlatform(oauthtest.RotateNever)
	p.Inject(oauthtest.Responses(200, "\ufeff"+`{"oauth":{"access_token":"a","refresh_token":"r"}}`))
	token, err := oauthtest.NewClient(t, p).Refresh(t.Context(), oauthtest.FirstToken(0))
	require.NoError(t, err)
	assert.Equal(t, "a", token.AccessToken.Reveal())
	assert.Equal(t, "r", token.RefreshToken.Reveal())
}

func TestExchangeReportsFailures(t *testing.T) {
	type test struct {
		fault oauthtest.Fault
		check func(t *testing.T, err error)
	}
	oauthtest.Each(t, map[string]test{
		"used or old code": {oauthtest.Responses(401, `{"error":"invalid_grant"}`), func(t *testing.T, err error) {
			require.ErrorIs(t, err, oauth.ErrCodeRejected)
			var response *api.Error
			require.ErrorAs(t, err, &response)
			assert.Equal(t, 401, response.StatusCode)
		}},
		"wrong secret": {oauthtest.Responses(401, `{"error":"invalid_client"}`), func(t *testing.T, err error) {
			var rejection *oauth.ConfigError
			require.ErrorAs(t, err, &rejection)
			assert.Equal(t, "invalid_client", rejection.Code)
			assert.Equal(t, "oauth: the platform rejects the application (invalid_client): check ClientID, ClientSecret and RedirectURL for us/sandbox", err.Error())
		}},
		"lost response": {oauthtest.Loses, func(t *testing.T, err error) { require.ErrorIs(t, err, api.ErrMaybeApplied) }},
		"server error":  {oauthtest.Responses(500, ``), func(t *testing.T, err error) { require.ErrorIs(t, err, api.ErrServer) }},
	}, func(t *testing.T, test test) {
		p := oauthtest.NewPlatform(oauthtest.RotateOnFirstUse)
		p.Inject(test.fault)
		token, err := oauthtest.NewClient(t, p).Exchange(t.Context(), api.NewSecret("code-1"))
		test.check(t, err)
		assert.Empty(t, token.AccessToken)
		assert.Len(t, p.Sent(), 1, "Exchange must send a code only once")
	})
	_, err := oauthtest.NewClient(t, oauthtest.NewPlatform(oauthtest.RotateNever)).Exchange(t.Context(), api.Secret{})
	require.ErrorIs(t, err, api.ErrArgument)
}

func TestRefreshReplacesPair(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		p := oauthtest.NewPlatform(oauthtest.RotateAtOnce)
		client := oauthtest.NewClient(t, p)
		old := oauthtest.FirstToken(0)
		old.ConfiguredScope = "catalog:read"
		token, err := client.Refresh(t.Context(), old)
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.AccessToken.Reveal())
		assert.Equal(t, "refresh-1", token.RefreshToken.Reveal())
		assert.Equal(t, "catalog:read", token.ConfiguredScope)
		assert.Equal(t, []map[string]string{{
			"grant_type": "refresh_token", "client_id": "client-1", "client_secret": "hush-hush",
			"redirect_uri": "https://ehr.example/callback?tenant=7", "refresh_token": "refresh-0",
		}}, p.Sent())

		_, err = client.Refresh(t.Context(), old)
		require.ErrorIs(t, err, api.ErrReauthorize)
		var response *api.Error
		require.ErrorAs(t, err, &response)
		assert.Equal(t, "invalid_grant", response.Code)
		_, err = client.Refresh(t.Context(), oauth.Token{Environment: oauthtest.USSandbox})
		require.ErrorIs(t, err, api.ErrReauthorize)
		_, err = client.Refresh(t.Context(), oauth.Token{Environment: oauthtest.CASandbox})
		require.ErrorIs(t, err, api.ErrWrongEnvironment)
		assert.Len(t, p.Sent(), 2)
	})
}

func TestRefreshRejectsAnotherOwner(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		client := oauthtest.NewClient(t, oauthtest.NewPlatform(oauthtest.RotateNever))
		old := oauthtest.FirstToken(0)
		old.ResourceOwner.ID = "prac-0"
		token, err := client.Refresh(t.Context(), old)
		require.ErrorIs(t, err, oauth.ErrOwnerChanged)
		require.ErrorIs(t, err, api.ErrReauthorize)
		assert.Zero(t, token)
		old.ResourceOwner = oauth.ResourceOwner{}
		token, err = client.Refresh(t.Context(), old)
		require.NoError(t, err, "an unknown owner must not cause an error")
		assert.Equal(t, "prac-1", token.ResourceOwner.ID)
	})
}

func TestRevokeRequiresPlatformResponse(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		client := oauthtest.NewClient(t, p)
		p.Inject(oauthtest.Responses(200, `{}`), oauthtest.Responses(401, `{"error":"invalid_client"}`), oauthtest.Responses(200, ``),
			oauthtest.Responses(200, "<!doctype html><title>Guest Wi-Fi</title>"), oauthtest.Responses(200, `{"error":"upstream unavailable"}`))
		require.NoError(t, client.Revoke(t.Context(), oauthtest.FirstToken(-time.Hour)))
		assert.Equal(t, []map[string]string{{"client_id": "client-1", "client_secret": "hush-hush", "token": "access-0"}}, p.Sent())
		assert.Equal(t, []string{"/api/oauth/revoke"}, p.Routes())
		var rejection *oauth.ConfigError
		require.ErrorAs(t, client.Revoke(t.Context(), oauthtest.FirstToken(0)), &rejection)
		for _, response := range []string{"empty", "page", "error"} {
			require.ErrorIs(t, client.Revoke(t.Context(), oauthtest.FirstToken(0)), api.ErrMaybeApplied, response)
		}

		token := oauthtest.FirstToken(0)
		token.Environment = oauthtest.CASandbox
		require.ErrorIs(t, client.Revoke(t.Context(), token), api.ErrWrongEnvironment)
		require.ErrorIs(t, client.Revoke(t.Context(), oauth.Token{Environment: oauthtest.USSandbox}), api.ErrArgument)
	})
}

func TestInvalidUTF8InGrantNamesField(t *testing.T) {
	t.Parallel()
	p := oauthtest.NewPlatform(oauthtest.RotateNever)
	client := oauthtest.NewClient(t, p)
	token := oauthtest.FirstToken(0)
	token.AccessToken, token.RefreshToken = api.NewSecret("canary\xe9"), api.NewSecret("canary\xe9")
	_, err := client.Exchange(t.Context(), api.NewSecret("canary\xe9"))
	require.EqualError(t, err, "dispensary: oauth.token: code must be valid UTF-8")
	_, err = client.Refresh(t.Context(), token)
	require.EqualError(t, err, "dispensary: oauth.token: refresh_token must be valid UTF-8")
	require.EqualError(t, client.Revoke(t.Context(), token), "dispensary: oauth.revoke: token must be valid UTF-8")
	assert.Empty(t, p.Sent())
}

func TestUntrustedResponseBlamesNoUser(t *testing.T) {
	oauthtest.Each(t, map[string]oauthtest.Fault{
		"invalid grant":  foreign(401, `{"error":"invalid_grant"}`),
		"invalid client": foreign(401, `{"error":"invalid_client"}`),
		"redirect":       foreign(400, `{"error":"redirect_uri_mismatch"}`),
		"no code":        foreign(401, `{}`),
		"page":           oauthtest.Responses(401, "<html>"),
	}, func(t *testing.T, fault oauthtest.Fault) {
		p := oauthtest.NewPlatform(oauthtest.RotateNever)
		client := oauthtest.NewClient(t, p)
		p.Inject(fault, fault, fault)
		_, exchange := client.Exchange(t.Context(), api.NewSecret("code-1"))
		_, refresh := client.Refresh(t.Context(), oauthtest.FirstToken(0))
		for _, err := range []error{exchange, refresh, client.Revoke(t.Context(), oauthtest.FirstToken(0))} {
			require.ErrorIs(t, err, api.ErrUntrusted)
			var rejection *oauth.ConfigError
			assert.NotErrorAs(t, err, &rejection)
			assert.NotErrorIs(t, err, api.ErrReauthorize)
			assert.NotErrorIs(t, err, oauth.ErrCodeRejected)
		}
	})
}

// foreign is a fault whose response has no X-Request-Id.
func foreign(status int, body string) oauthtest.Fault {
	return func(func() *http.Response) (*http.Response, error) {
		response := oauthtest.Respond(status, body)
		response.Header.Del("X-Request-Id")
		return response, nil
	}
}

// The old pair is already invalid, so Refresh keeps the granted pair in any case.
func TestGrantedTokenNeedsNoRequestID(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		p := oauthtest.NewPlatform(oauthtest.RotateAtOnce)
		p.Inject(func(handle func() *http.Response) (*http.Response, error) {
			response := handle()
			response.Header.Del("X-Request-Id")
			return response, nil
		})
		token, err := oauthtest.NewClient(t, p).Refresh(t.Context(), oauthtest.FirstToken(0))
		require.NoError(t, err)
		assert.Equal(t, "access-1", token.AccessToken.Reveal())
	})
}

// countingLimiter records the priorities of requests and permits them until it is closed.
type countingLimiter struct {
	asked  []api.Priority
	closed bool
}

func (l *countingLimiter) Wait(ctx context.Context) error {
	l.asked = append(l.asked, apikit.PriorityOf(ctx))
	if l.closed {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func newLimited(t *testing.T) (*oauth.Client, *countingLimiter, *oauthtest.Platform) {
	t.Helper()
	limiter, p := &countingLimiter{}, oauthtest.NewPlatform(oauthtest.RotateNever)
	return oauthtest.NewClient(t, p, func(c *oauth.Config) { c.Limiter = limiter }), limiter, p
}

func TestTokenRequestsWaitForLimiter(t *testing.T) {
	t.Parallel()
	client, limiter, p := newLimited(t)
	_, err := client.Exchange(t.Context(), api.NewSecret("code-1"))
	require.NoError(t, err)
	_, err = client.Refresh(api.ContextWithPriority(t.Context(), api.PriorityRefresh), oauthtest.FirstToken(0))
	require.NoError(t, err)
	require.NoError(t, client.Revoke(api.ContextWithPriority(t.Context(), api.PriorityEvent), oauthtest.FirstToken(0)))
	assert.Equal(t, []api.Priority{api.PriorityInteractive, api.PriorityRefresh, api.PriorityEvent}, limiter.asked)
	limiter.closed = true
	_, err = client.Refresh(t.Context(), oauthtest.FirstToken(0))
	require.ErrorIs(t, err, api.ErrNotSent)
	assert.Len(t, p.Routes(), 3)
}

func TestAdmittedRequestWaitsOnce(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		client, limiter, _ := newLimited(t)
		for _, delay := range []time.Duration{0, 2 * time.Second} {
			limiter.asked = nil
			ctx, err := client.Admit(t.Context())
			require.NoError(t, err)
			time.Sleep(delay)
			for range 2 {
				_, err = client.Refresh(ctx, oauthtest.FirstToken(0))
				require.NoError(t, err)
			}
			assert.Len(t, limiter.asked, map[time.Duration]int{0: 2, 2 * time.Second: 3}[delay])
		}
		limiter.closed = true
		_, err := client.Admit(t.Context())
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestAdmitReturnsContextWithoutLimiter(t *testing.T) {
	t.Parallel()
	client := oauthtest.NewClient(t, oauthtest.NewPlatform(oauthtest.RotateNever))
	ctx, err := client.Admit(t.Context())
	require.NoError(t, err)
	assert.Equal(t, t.Context(), ctx)
}
