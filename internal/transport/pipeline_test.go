package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// tokensOf is a token source that calls a function.
type tokensOf func() (api.AccessToken, error)

func (f tokensOf) Token(context.Context) (api.AccessToken, error) { return f() }

// The client checks the arguments before it fetches a token, fetches a token before it calls
// the limiter, and calls the limiter before it sends a request.
func TestPipelineRunsLinksInOrder(t *testing.T) {
	t.Parallel()
	get := Call{Operation: operation.PatientGet, Path: []string{"p"}}
	for name, c := range map[string]struct {
		call     Call
		tokenErr error
		want     []string
	}{
		"all steps":    {get, nil, []string{"token", "limiter", "sent"}},
		"no token":     {get, errors.New("none"), []string{"token"}},
		"bad argument": {Call{Operation: operation.PatientGet}, nil, nil},
	} {
		var order []string
		client := newTestClient(t, roundTrip(func(r *http.Request) (*http.Response, error) {
			order = append(order, "sent")
			return reply(200, `{"patient":{"id":"p"}}`), nil
		}), func(config *Config) {
			config.Tokens = tokensOf(func() (api.AccessToken, error) { order = append(order, "token"); return validToken(), c.tokenErr })
			config.Limiter = limiterFunc(func(context.Context) error { order = append(order, "limiter"); return nil })
		})
		_, err := One[thing](t.Context(), client, c.call)
		assert.Equal(t, len(c.want) == 3, err == nil, name)
		assert.Equal(t, c.want, order, name)
	}
}

// Each attempt is one log record. The failed attempt has no status, the last one has a status
// and a request id, and neither contains the requested id.
func TestEachAttemptIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		fails := func() (*http.Response, error) { return nil, errors.New("canary") }
		client := newTestClient(t, turns(fails, found), func(c *Config) { c.Logger = logTo(&log) })
		_, err := One[thing](t.Context(), client, Call{Operation: operation.PatientGet, Path: []string{"canary"}})
		require.NoError(t, err)
		assert.NotContains(t, log.String(), "canary")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 2)
		var first, last map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
		require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
		assert.Equal(t, "patients.get", first["operation"])
		assert.Equal(t, "network failure", first["error"])
		assert.NotContains(t, first, "status")
		assert.EqualValues(t, 2, last["attempt"])
		assert.EqualValues(t, 200, last["status"])
		assert.Equal(t, "req-1", last["request_id"])
	})
}
