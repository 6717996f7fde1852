package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/oauth2"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/oauth"
	"github.com/dispensary-go/dispensary/oauth/internal/oauthtest"
)

func TestFromOAuth2KeepsToken(t *testing.T) {
	t.Parallel()
	first := oauthtest.FirstToken(time.Hour)
	foreign := (&oauth2.Token{AccessToken: first.AccessToken.Reveal(), Expiry: first.ExpiresAt}).WithExtra(map[string]any{"scope": first.Scope})
	source := oauth.FromOAuth2(oauth2.StaticTokenSource(foreign), oauthtest.USSandbox)
	token, err := source.Token(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first.AccessToken.Reveal(), token.Secret.Reveal())
	assert.Equal(t, oauthtest.USSandbox, token.Environment)
	assert.Equal(t, "catalog:read clinic:read", token.Scope)
}

// tokenFunc implements an x/oauth2 source.
type tokenFunc func() (*oauth2.Token, error)

func (f tokenFunc) Token() (*oauth2.Token, error) { return f() }

func TestFromOAuth2ReusesValidToken(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		var asked atomic.Int32
		source := oauth.FromOAuth2(tokenFunc(func() (*oauth2.Token, error) {
			time.Sleep(time.Second)
			asked.Add(1)
			return &oauth2.Token{AccessToken: "a", Expiry: time.Now().Add(time.Hour)}, nil
		}), oauthtest.USSandbox)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { _, err := source.Token(t.Context()); assert.NoError(t, err) })
		}
		wg.Wait()
		assert.EqualValues(t, 1, asked.Load())
		time.Sleep(time.Hour - 10*time.Second)
		_, err := source.Token(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, asked.Load())
	})
}

func TestFromOAuth2RefetchesWithoutExpiry(t *testing.T) {
	t.Parallel()
	var asked int
	source := oauth.FromOAuth2(tokenFunc(func() (*oauth2.Token, error) {
		asked++
		return &oauth2.Token{AccessToken: "a"}, nil
	}), oauthtest.USSandbox)
	for range 3 {
		_, err := source.Token(t.Context())
		require.NoError(t, err)
	}
	assert.Equal(t, 3, asked)
}

func TestFromOAuth2CallerCanCancel(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		source := oauth.FromOAuth2(tokenFunc(func() (*oauth2.Token, error) {
			time.Sleep(time.Minute)
			return nil, nil
		}), oauthtest.USSandbox)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // the first cancels while the source works, the second while it waits
			_, err := source.Token(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		_, err := source.Token(t.Context())
		require.ErrorContains(t, err, "returned no token")
	})
}

func TestFromOAuth2HidesResponse(t *testing.T) {
	type test struct {
		err         error
		want        string
		reauthorize bool
	}
	oauthtest.Each(t, map[string]test{
		"response without code": {
			&oauth2.RetrieveError{Response: &http.Response{StatusCode: 500}, Body: []byte("oauthtest.Canary")},
			"oauth: x/oauth2 token source: the token endpoint rejected the request (status 500)", false,
		},
		"invalid grant": {
			&oauth2.RetrieveError{Response: &http.Response{StatusCode: 400}, ErrorCode: "invalid_grant", ErrorDescription: "oauthtest.Canary"},
			"oauth: x/oauth2 token source: the token endpoint rejected the request: invalid_grant (status 400)", true,
		},
		"another error": {errors.New("keyring is locked"), "oauth: x/oauth2 token source: keyring is locked", false},
	}, func(t *testing.T, test test) {
		_, err := oauth.FromOAuth2(tokenFunc(func() (*oauth2.Token, error) { return nil, test.err }), oauthtest.USSandbox).Token(t.Context())
		require.EqualError(t, err, test.want)
		require.ErrorIs(t, err, test.err)
		assert.Equal(t, test.reauthorize, errors.Is(err, api.ErrReauthorize))
	})
}

func TestTokenRejectsJSONDecoding(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(oauthtest.FirstToken(time.Hour))
	require.NoError(t, err)
	var token oauth.Token
	require.ErrorContains(t, json.Unmarshal(data, &token), "store its fields")
}

// An x/oauth2 source that panics or exits its goroutine must not block its callers.
func TestFromOAuth2SurvivesPanic(t *testing.T) {
	oauthtest.Bubble(t, func(t *testing.T) {
		for _, leave := range []func(){func() { panic(oauthtest.Canary) }, runtime.Goexit} {
			source := oauth.FromOAuth2(tokenFunc(func() (*oauth2.Token, error) { leave(); return nil, nil }), oauthtest.USSandbox)
			for range 2 {
				_, err := source.Token(t.Context())
				require.Error(t, err)
				assert.NotContains(t, err.Error(), oauthtest.Canary)
			}
		}
	})
}
