package contract_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/internal/lab/contract"
	"github.com/dispensary-go/dispensary/internal/testkit/calltest"
)

// The request and the response of each client call follow the contract.
func TestClientFollowsContract(t *testing.T) {
	t.Parallel()
	made := calltest.All(t)
	assert.ElementsMatch(t, exercised(), slices.Collect(maps.Keys(made)))
	for _, name := range exercised() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			var recorder *contract.Recorder
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				recorder = &contract.Recorder{Base: base}
				return recorder
			})
			require.Contains(t, made, name)
			s.Platform.Journal.Reset()
			value, err := made[name](t.Context(), s)
			require.NoError(t, err)
			s.Platform.Journal.CheckNoUnexpected(t)
			if name == "oauth.authorize" {
				return // only a browser requests it
			}
			s.Platform.Journal.CheckRequested(t, name)
			assert.Equal(t, name != "oauth.revoke", value != nil, "decoded response")
			keepsContract(t, s.Platform, recorder)
		})
	}
}

// keepsContract checks the recorded exchanges of a platform. Its journal contains their operations.
func keepsContract(t *testing.T, platform *dispensarytest.Server, recorder *contract.Recorder) {
	t.Helper()
	check := loaded(t)
	operations := map[string]string{}
	for _, request := range platform.Journal.Requests() {
		operations[request.ID] = request.Operation
	}
	require.NotEmpty(t, recorder.Exchanges)
	for _, e := range recorder.Exchanges {
		assert.Empty(t, check.CheckExchange(operations[e.Response.Header.Get("X-Request-Id")], e))
	}
}
