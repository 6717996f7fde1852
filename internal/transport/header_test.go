package transport

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// unsendable are values that net/http refuses only when it sends.
var unsendable = []string{"canary\n", "canary\r\nX-Other: 1", "can\x00ary", "canary\x7f", "\x1bcanary"}

func TestHeaderValuesThatCannotBeSentAreRefusedByNew(t *testing.T) {
	t.Parallel()
	for field, set := range map[string]func(*Config, string){
		"ClinicKey": func(c *Config, value string) { c.ClinicKey = api.Secret(value) },
		"UserAgent": func(c *Config, value string) { c.UserAgent = value },
	} {
		for _, value := range unsendable {
			config := Config{Site: api.Site{Environment: sandbox, BaseURL: "https://platform.example/api", AuthURL: "https://auth.example"}}
			set(&config, value)
			_, err := New(config)
			assertRefused(t, err, field)
		}
	}
}

// assertRefused checks that the error names the field, says that nothing was sent, and
// shows no value.
func assertRefused(t *testing.T, err error, field string) {
	t.Helper()
	var argument *api.ArgumentError
	require.ErrorAs(t, err, &argument)
	assert.Equal(t, field, argument.Field)
	assert.Contains(t, argument.Reason, "control character")
	require.ErrorIs(t, err, api.ErrInvalidArgument)
	require.ErrorIs(t, err, api.ErrNotSent)
	require.NotErrorIs(t, err, api.ErrMaybeApplied)
	for _, text := range texts(err) {
		assert.NotContains(t, text, "canary")
		assert.NotContains(t, text, "X-Other")
	}
}

func TestHeaderValuesThatCannotBeSentAreRefusedForACall(t *testing.T) {
	t.Parallel()
	transport := &answers{}
	client := newTestClient(t, transport)
	for _, value := range unsendable {
		assertRefused(t, create(t.Context(), client, api.WithHeader("X-Trace", value)), "header X-Trace")
		_, err := List[thing](t.Context(), client, Call{Operation: operation.ProductList, Options: []api.RequestOption{
			api.WithHeader("X-Trace", value),
		}}, api.Paging{})
		assertRefused(t, err, "header X-Trace")
	}
	for _, name := range []string{"", "X Trace", "X-Trace:", "X-Tr\nace", "é"} {
		err := create(t.Context(), client, api.WithHeader(name, "canary"))
		require.ErrorIs(t, err, api.ErrInvalidArgument, name)
		assert.EqualError(t, err, "dispensary: patients.create: header name is not one that HTTP allows")
	}
	assert.Zero(t, transport.calls.Load())
}

func TestTokensThatCannotBeSentAreRefused(t *testing.T) {
	t.Parallel()
	transport := &answers{}
	for _, value := range unsendable {
		token := validToken()
		token.Secret = api.Secret(value)
		client := newTestClient(t, transport, withTokens(static{token}))
		for _, err := range []error{create(t.Context(), client), get(t.Context(), client)} {
			assertRefused(t, err, "AccessToken.Secret")
			var failure *api.Error
			require.ErrorAs(t, err, &failure)
			assert.Zero(t, failure.Attempts)
		}
	}
	assert.Zero(t, transport.calls.Load())
}

func TestHeaderValuesThatCanBeSentPass(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "plain", "with space and\ttab", "caf\xc3\xa9"} {
		r, _, err := sent(t, Call{Operation: operation.ClinicGet, Options: []api.RequestOption{api.WithHeader("x-trace", value)}})
		require.NoError(t, err)
		assert.Equal(t, []string{value}, r.Header["X-Trace"])
	}
	_, err := New(Config{Site: api.Site{Environment: sandbox, BaseURL: "https://platform.example/api", AuthURL: "https://auth.example"}, HTTPClient: http.DefaultClient})
	assert.NoError(t, err, "neither key nor user agent is required")
}
