package httpapi

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/operations"
	"github.com/dispensary-go/dispensary/dispensarytest/internal/rules"
)

// A bug of the platform becomes a response. An intended abort still breaks the connection.
func TestPanicBecomesResponse(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	set := rules.Defaults()
	c := &call{api: &API{}, record: entry{api: &API{}}, behaviors: &set, request: httptest.NewRequest("GET", "/", nil)}
	func() {
		defer c.rescue(recorder)
		panic("a bug")
	}()
	assert.Equal(t, 500, recorder.Code)
	assert.Contains(t, recorder.Body.String(), "a bug")
	assert.Equal(t, 500, c.record.Status)
	assert.PanicsWithValue(t, http.ErrAbortHandler, func() {
		defer c.rescue(recorder)
		panic(http.ErrAbortHandler)
	})
	recorder = httptest.NewRecorder()
	c.writeError(recorder, errors.New("not the client's problem"))
	assert.Equal(t, 500, recorder.Code)
}

func TestTableCoversWholeAPI(t *testing.T) {
	t.Parallel()
	endpoints := make(map[string]bool)
	for _, op := range operations.All() {
		if op.Page {
			continue
		}
		assert.False(t, endpoints[op.ID], op.ID)
		endpoints[op.ID] = true
		assert.NotNil(t, handlers()[op.ID], op.ID)
		assert.True(t, op.Open || op.Scope != "" || op.Assumed, op.ID)
	}
	assert.Len(t, endpoints, 61)
}
