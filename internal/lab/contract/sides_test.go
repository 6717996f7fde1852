package contract_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/lab/contract"
)

func TestTableMatchesDocument(t *testing.T) {
	t.Parallel()
	rows := loaded(t).Rows()
	assert.Len(t, rows, 62, "61 endpoints and the authorize page")
	assert.Equal(t, contract.TableRows(), rows)
	for name := range rows {
		assert.Contains(t, exercises, name)
	}
	assert.Len(t, exercises, len(rows))
}

// The fake platform serves every route of the document as the same operation.
func TestFakeServesDocumentedRoutes(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, row := range s.check.Rows() {
		req, err := http.NewRequest(row.Method, s.fake.Site().BaseURL+routeParameter.ReplaceAllString(row.Route, "probe"), nil)
		require.NoError(t, err)
		s.exchange(req, nil)
		last := s.lastRequest()
		assert.Equal(t, []string{name, row.Method, row.Route}, []string{last.Operation, last.Method, last.Route})
	}
}

func TestEventTypesMatchDocument(t *testing.T) {
	t.Parallel()
	var documented []string
	for _, value := range loaded(t).Document().Components.Schemas["EventType"].Value.Enum {
		documented = append(documented, value.(string))
	}
	assert.Equal(t, model.EventTypes(), documented)
}
