package dispensary_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/internal/calltest"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// The client has a call for every row of the table, and none besides.
func TestEveryOperationHasACall(t *testing.T) {
	t.Parallel()
	var rows []string
	for _, op := range operation.All() {
		rows = append(rows, op.Name)
	}
	assert.Len(t, rows, 61+1, "61 endpoints and the authorization page")
	assert.ElementsMatch(t, rows, slices.Collect(maps.Keys(calltest.All(t))))
}

// Every call reaches the operation it is named for, with nothing the platform does
// not know, and its answer decodes.
func TestEveryCallReachesItsOperation(t *testing.T) {
	t.Parallel()
	for name, call := range calltest.All(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := calltest.NewFixture(t)
			s.Platform.Journal().Reset()
			var response dispensary.Response
			s.Options = []dispensary.RequestOption{dispensary.CaptureResponse(&response)}
			value, err := call(t.Context(), s)
			require.NoError(t, err)
			s.Platform.Journal().CheckNoUnexpected(t)
			request := s.Platform.Journal().CheckRequested(t, name)
			if name == "oauth.authorize" {
				return // a page for a browser, not a call
			}
			assert.Equal(t, request.ID, response.RequestID)
			assert.Equal(t, request.Status, response.StatusCode)
			if name != "oauth.revoke" {
				assert.NotNil(t, value)
			}
		})
	}
}
