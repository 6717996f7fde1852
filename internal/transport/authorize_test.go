package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// rotating is a token source with numbered tokens.
type rotating struct {
	generation, refreshes atomic.Int32
	refuse                error
}

func (r *rotating) token() api.AccessToken {
	return api.AccessToken{Secret: api.NewSecret(fmt.Sprintf("token-%d", r.generation.Load())), Environment: sandbox}
}

func (r *rotating) Token(context.Context) (api.AccessToken, error) { return r.token(), nil }

func (r *rotating) Refresh(_ context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	r.refreshes.Add(1)
	if r.refuse != nil {
		return api.AccessToken{}, r.refuse
	}
	if rejected.Secret == r.token().Secret {
		r.generation.Add(1)
	}
	return r.token(), nil
}

// accept responds with 401 to every token except the given one.
func accept(token string) *answers {
	return &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			return reply(401, `{"error":"The access token expired"}`), nil
		}
		return reply(200, `{"patient":{"id":"p1"}}`), nil
	}}
}

func withTokens(source api.TokenSource) func(*Config) { return func(c *Config) { c.Tokens = source } }

func TestUnauthorizedRefreshesAndRetriesOnce(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *Client) error{"read": get, "write": createOnce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, transport := &rotating{}, accept("token-1")
			require.NoError(t, call(t.Context(), newTestClient(t, transport, withTokens(source))))
			assert.EqualValues(t, 2, transport.calls.Load())
			assert.EqualValues(t, 1, source.refreshes.Load())
		})
	}
}

// The platform may respond to all users with 401 for some time, which means nothing about a
// single user.
func TestSecondUnauthorizedIsReturned(t *testing.T) {
	t.Parallel()
	source, transport := &rotating{}, accept("none")
	err := get(t.Context(), newTestClient(t, transport, withTokens(source)))
	assert.NotErrorIs(t, err, api.ErrReauthorize)
	assert.ErrorIs(t, err, api.ErrUnauthorized)
	assert.EqualValues(t, 2, transport.calls.Load())
	assert.EqualValues(t, 1, source.refreshes.Load())
}

func TestUnauthorizedWithoutRefreshIsReturned(t *testing.T) {
	t.Parallel()
	t.Run("source cannot refresh", func(t *testing.T) {
		t.Parallel()
		transport := accept("none")
		err := get(t.Context(), newTestClient(t, transport))
		assert.ErrorIs(t, err, api.ErrUnauthorized)
		assert.EqualValues(t, 1, transport.calls.Load())
	})
	t.Run("refresh fails", func(t *testing.T) {
		t.Parallel()
		errRefresh := errors.New("no refresh today")
		source, transport := &rotating{refuse: errRefresh}, accept("none")
		err := create(t.Context(), newTestClient(t, transport, withTokens(source)))
		assert.ErrorIs(t, err, errRefresh)
		assert.ErrorIs(t, err, api.ErrUnauthorized)
		assert.ErrorIs(t, err, api.ErrNotApplied)
		assert.EqualValues(t, 1, transport.calls.Load())
	})
}

func TestTokenOfOtherEnvironmentIsRejected(t *testing.T) {
	t.Parallel()
	for _, environment := range []api.Environment{api.CanadaSandbox, api.USProduction, ""} {
		transport := accept("x")
		token := api.AccessToken{Secret: api.NewSecret("x"), Environment: environment}
		err := create(t.Context(), newTestClient(t, transport, withTokens(static{token})))
		assert.ErrorIs(t, err, api.ErrWrongEnvironment)
		assert.ErrorIs(t, err, api.ErrNotSent)
		assert.Zero(t, transport.calls.Load())
		assert.Contains(t, err.Error(), environment.String())
	}
}

func TestCallWithoutTokenSendsNoRequest(t *testing.T) {
	t.Parallel()
	transport := accept("x")
	token := func(text string) api.TokenSource {
		return static{api.AccessToken{Secret: api.NewSecret(text), Environment: sandbox}}
	}
	for _, source := range []api.TokenSource{nil, token(""), token("  "), token("Bearer x"), token("x ")} {
		err := create(t.Context(), newTestClient(t, transport, withTokens(source)))
		assert.ErrorIs(t, err, api.ErrNotSent)
	}
	assert.Zero(t, transport.calls.Load())
}

func TestTokenEndpointReceivesNoToken(t *testing.T) {
	t.Parallel()
	transport := &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
		assert.NotContains(t, r.Header, "Authorization")
		return reply(200, `{}`), nil
	}}
	client := newTestClient(t, transport, withTokens(nil))
	require.NoError(t, Do(t.Context(), client, Call{Operation: operation.OAuthRevoke, Body: struct{}{}}))
}

func TestViewChangesOnlyItsTokens(t *testing.T) {
	t.Parallel()
	transport := accept("jane")
	client := newTestClient(t, transport)
	jane := view(t, client, withTokens(static{api.AccessToken{Secret: api.NewSecret("jane"), Environment: sandbox}}))
	assert.NoError(t, get(t.Context(), jane))
	assert.ErrorIs(t, get(t.Context(), client), api.ErrUnauthorized)
}

// A 401 of a gateway may hide a write that the platform has applied.
func TestUntrustedUnauthorizedRepeatsNoWrite(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"message":"Unauthorized"}`, "<html>Sign in"} {
		source, transport := &rotating{}, says(401, body, "X-Request-Id", "")
		err := createOnce(t.Context(), newTestClient(t, transport, withTokens(source)))
		require.ErrorIs(t, err, api.ErrMaybeApplied)
		require.ErrorIs(t, err, api.ErrUntrusted)
		assert.NotErrorIs(t, err, api.ErrUnauthorized)
		assert.EqualValues(t, 1, transport.calls.Load())
		assert.Zero(t, source.refreshes.Load())

		err = get(t.Context(), newTestClient(t, transport, withTokens(source)))
		require.ErrorIs(t, err, api.ErrUntrusted)
		assert.EqualValues(t, 3, transport.calls.Load(), "a read is repeated with a fresh token")
		assert.EqualValues(t, 1, source.refreshes.Load())
	}
}
