package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/internal/operation"
)

// Each attempt is one record of the log: the failed one has no status, the last one
// has status and request id, and neither names the id that was asked for.
func TestEachAttemptIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := newTestClient(t, &answers{answer: func(call int, _ *http.Request) (*http.Response, error) {
			if call == 1 {
				return nil, errors.New("canary")
			}
			return reply(200, `{"patient":{"id":"p"}}`), nil
		}}, func(c *Config) { c.Logger = logTo(&log) })
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
