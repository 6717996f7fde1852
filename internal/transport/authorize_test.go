package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
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
	reject                error
}

func (r *rotating) token() api.AccessToken {
	return api.AccessToken{Secret: api.NewSecret(fmt.Sprintf("token-%d", r.generation.Load())), Environment: sandbox}
}

func (r *rotating) Token(context.Context) (api.AccessToken, error) { return r.token(), nil }

func (r *rotating) Refresh(_ context.Context, rejected api.AccessToken) (api.AccessToken, error) {
	r.refreshes.Add(1)
	if r.reject != nil {
		return api.AccessToken{}, r.reject
	}
	if rejected.Secret == r.token().Secret {
		r.generation.Add(1)
	}
	return r.token(), nil
}

// accept responds with 401 to every token except the given one.
func accept(token string) *responder {
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
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
		source, transport := &rotating{reject: errRefresh}, accept("none")
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
	transport := &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
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

var (
	stated  = operation.New(operation.Operation{Name: "plans.create", Method: "POST", Route: "/plans", Scope: "clinic:write patients:read", ScopeStated: true})
	assumed = operation.New(operation.Operation{Name: "patients.list", Method: "GET", Route: "/patients", Scope: "patients:read"})
)

func scoped(scope string) api.AccessToken {
	return api.AccessToken{Secret: api.NewSecret("token-canary"), Environment: sandbox, Scope: scope}
}

func TestMissingStatedScopeSendsNoRequest(t *testing.T) {
	t.Parallel()
	for granted, missing := range map[string]string{
		"clinic:write patients:read":              "",
		"catalog:read patients:read clinic:write": "",
		"clinic patients":                         "",
		"clinic patients:read":                    "",
		"":                                        "",
		"  ":                                      "",
		"clinic:write,patients:read":              "",
		"clinic:write, patients:read":             "",
		"clinic:write+patients:read":              "",
		"clinic:write,catalog:read":               "patients:read",
		"CLINIC:WRITE PATIENTS:READ":              "", // sent, because the client does not know this form
		"write_clinic|read_patients":              "",
		",":                                       "",
		"clinic:write":                            "patients:read",
		"patients":                                "clinic:write",
		"catalog:read":                            "clinic:write",
		"clinic:writer patients:read":             "clinic:write",
		"CLINIC:WRITE patients:read":              "clinic:write",
	} {
		transport := says(200, `{}`)
		err := Do(t.Context(), newTestClient(t, transport, withTokens(static{scoped(granted)})), Call{Operation: stated})
		if missing == "" {
			require.NoError(t, err, granted)
			assert.EqualValues(t, 1, transport.calls.Load())
			continue
		}
		assert.Zero(t, transport.calls.Load(), granted)
		require.ErrorIs(t, err, api.ErrForbidden)
		require.ErrorIs(t, err, api.ErrNotSent)
		assert.NotErrorIs(t, err, api.ErrNotApplied)
		var scope *api.ScopeError
		require.ErrorAs(t, err, &scope)
		assert.Equal(t, api.ScopeError{Operation: "plans.create", Scope: missing}, *scope)
		assert.Equal(t, "dispensary: plans.create POST /plans: the token lacks the scope "+missing+": request was not sent", err.Error())
		for _, text := range texts(err) {
			assert.NotContains(t, text, "token-canary")
		}
	}
}

func TestMissingAssumedScopeLogsWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	transport := says(200, `{}`)
	client := newTestClient(t, transport, func(c *Config) { c.Logger = logTo(&log) })
	for range 3 {
		other := view(t, client, withTokens(static{scoped("catalog:read")}))
		require.NoError(t, Do(t.Context(), other, Call{Operation: assumed}))
	}
	assert.EqualValues(t, 3, transport.calls.Load())
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN")+strings.Count(log.String(), `"level":"WARN"`), log.String())
	assert.Contains(t, log.String(), "patients:read")
	assert.NotContains(t, log.String(), "token-canary")

	quiet := newTestClient(t, transport, withTokens(static{scoped("catalog:read")}))
	require.NoError(t, Do(t.Context(), quiet, Call{Operation: assumed}))
}

func TestForbiddenErrorNamesAssumedScope(t *testing.T) {
	t.Parallel()
	for granted, want := range map[string]string{"catalog:read": "patients:read", "patients:read": "", "": ""} {
		client := newTestClient(t, says(403, `{"error":"no"}`), withTokens(static{scoped(granted)}))
		err := Do(t.Context(), client, Call{Operation: assumed})
		require.ErrorIs(t, err, api.ErrForbidden)
		assert.NotErrorIs(t, err, api.ErrNotSent)
		var scope *api.ScopeError
		if errors.As(err, &scope) != (want != "") {
			t.Errorf("%q: %v", granted, err)
		} else if want != "" {
			assert.Equal(t, api.ScopeError{Operation: "patients.list", Scope: want, Assumed: true}, *scope)
			assert.Equal(t, "dispensary: patients.list GET /patients: 403 Forbidden: the token lacks the scope patients:read (assumed to be needed) (request id req-1)", err.Error())
		}
	}
	err := Do(t.Context(), newTestClient(t, says(404, `{}`), withTokens(static{scoped("catalog:read")})), Call{Operation: assumed})
	var scope *api.ScopeError
	assert.NotErrorAs(t, err, &scope, "a 404 has another reason than the scope")
}

// reloading is a token source with a newer token in its store.
type reloading struct {
	static
	kept    api.AccessToken
	err     error
	reloads int
}

func (r *reloading) Reload(context.Context) (api.AccessToken, error) {
	r.reloads++
	return r.kept, r.err
}

func TestMissingScopeReloadsToken(t *testing.T) {
	t.Parallel()
	t.Run("granted since", func(t *testing.T) {
		t.Parallel()
		source := &reloading{static: static{scoped("catalog:read")}, kept: scoped("clinic patients")}
		source.kept.Secret = api.NewSecret("newer")
		transport := &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
			assert.Equal(t, "Bearer newer", r.Header.Get("Authorization"))
			return reply(200, `{}`), nil
		}}
		require.NoError(t, Do(t.Context(), newTestClient(t, transport, withTokens(source)), Call{Operation: stated}))
	})
	t.Run("still missing", func(t *testing.T) {
		t.Parallel()
		source := &reloading{static: static{scoped("catalog:read")}, kept: scoped("clinic")}
		err := Do(t.Context(), newTestClient(t, says(200, `{}`), withTokens(source)), Call{Operation: stated})
		var scope *api.ScopeError
		require.ErrorAs(t, err, &scope)
		assert.Equal(t, "patients:read", scope.Scope)
	})
	t.Run("token revoked", func(t *testing.T) {
		t.Parallel()
		source := &reloading{static: static{scoped("catalog:read")}, err: api.ErrReauthorize}
		err := Do(t.Context(), newTestClient(t, says(200, `{}`), withTokens(source)), Call{Operation: stated})
		require.ErrorIs(t, err, api.ErrReauthorize)
		require.ErrorIs(t, err, api.ErrNotSent)
	})
	t.Run("assumed scope", func(t *testing.T) {
		t.Parallel()
		source := &reloading{static: static{scoped("catalog:read")}}
		require.NoError(t, Do(t.Context(), newTestClient(t, says(200, `{}`), withTokens(source)), Call{Operation: assumed}))
		assert.Zero(t, source.reloads)
	})
}

func TestVaryingScopeIsNotChecked(t *testing.T) {
	t.Parallel()
	varies := operation.New(operation.Operation{Name: "events.get", Method: "GET", Route: "/events", Scope: "catalog:read", ScopeVaries: true})
	err := Do(t.Context(), newTestClient(t, says(403, `{}`), withTokens(static{scoped("patients:read")})), Call{Operation: varies})
	var scope *api.ScopeError
	assert.NotErrorAs(t, err, &scope)
	_, err = Raw(t.Context(), newTestClient(t, says(403, `{}`), withTokens(static{scoped("patients:read")})), "GET", "/x", nil, nil, nil)
	assert.NotErrorAs(t, err, &scope)
}

func TestReloadedTokenMustMatchEnvironment(t *testing.T) {
	t.Parallel()
	source := &reloading{static: static{scoped("catalog:read")}, kept: scoped("clinic patients")}
	source.kept.Environment = api.CanadaSandbox
	err := Do(t.Context(), newTestClient(t, says(200, `{}`), withTokens(source)), Call{Operation: stated})
	require.ErrorIs(t, err, api.ErrWrongEnvironment)
}
