package contract_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/contract"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// What the client sends for every operation, and what it is answered, keeps the
// contract.
func TestClientKeepsTheContract(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	made := calltest.All(t)
	require.Len(t, made, len(check.Operations()))
	for _, name := range check.Operations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			var recorder *contract.Recorder
			s.Through(func(base http.RoundTripper) http.RoundTripper {
				recorder = &contract.Recorder{Base: base}
				return recorder
			})
			require.Contains(t, made, name)
			s.Platform.Journal().Reset()
			var response dispensary.Response
			s.Options = []dispensary.RequestOption{dispensary.CaptureResponse(&response)}
			value, err := made[name](t.Context(), s)
			require.NoError(t, err)
			s.Platform.Journal().CheckNoUnexpected(t)
			if name == "oauth.authorize" {
				return // a browser visits it, not the client
			}
			request := s.Platform.Journal().CheckRequested(t, name)
			assert.Equal(t, request.ID, response.RequestID)
			assert.Equal(t, request.Status, response.StatusCode)
			assert.Equal(t, name != "oauth.revoke", value != nil, "the answer decodes")
			var seen int
			for _, e := range recorder.Exchanges() {
				reached, ok := check.Identify(e.Request)
				require.True(t, ok, "the API has no such operation")
				if reached == name {
					seen++
				}
				assert.Empty(t, check.CheckExchange(reached, e.Request, e.RequestBody, e.Response, e.ResponseBody))
			}
			assert.NotZero(t, seen, "the call reaches its operation")
		})
	}
}

// The bodies that the client's own tests compare with keep the contract too.
func TestGoldenRequestBodiesKeepTheContract(t *testing.T) {
	t.Parallel()
	check := loaded(t)
	files, err := filepath.Glob("../../testdata/requests/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	rows := map[string]*operation.Operation{}
	for _, op := range operation.All() {
		rows[op.Name] = op
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		require.Contains(t, rows, name)
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		var path strings.Builder
		for text, param := range rows[name].Segments() {
			path.WriteString(text)
			if param != "" {
				path.WriteString("id")
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), rows[name].Method, "https://platform.example/api"+path.String(), http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer token")
		assert.Empty(t, check.CheckRequest(name, req, body), name)
	}
}
