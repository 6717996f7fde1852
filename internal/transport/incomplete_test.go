package transport

import (
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// cutOff responds with 20 of 50 records, in pages of 10.
func cutOff() *answers {
	return &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
		number := param(r, "page[number]")
		return products((min(number, 3)-1)*10, min(min(number, 3)*10, 20), `{"current_page":%d,"total_pages":2,"total_count":50}`, number), nil
	}}
}

func TestListReportsEarlyEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		settings api.ListSettings
		read     int
		complete bool
	}{
		"all":              {api.ListSettings{PageSize: 10}, 20, false},
		"ahead":            {api.ListSettings{PageSize: 10, Prefetch: 4}, 20, false},
		"from page 2":      {api.ListSettings{PageSize: 10, StartAt: 2}, 10, false},
		"limit before end": {api.ListSettings{PageSize: 10, Limit: 15}, 15, true},
		"limit at end":     {api.ListSettings{PageSize: 10, Limit: 20}, 20, true},
		"limit after end":  {api.ListSettings{PageSize: 10, Limit: 30}, 20, false},
		"from after list":  {api.ListSettings{PageSize: 10, StartAt: 6}, 0, true},
		"from last number": {api.ListSettings{StartAt: math.MaxInt}, 0, true},
		"prefetched":       {api.ListSettings{StartAt: math.MaxInt, Prefetch: 4}, 0, true},
		"product overflow": {api.ListSettings{StartAt: math.MaxInt/100 + 2}, 0, true},
		"largest pages":    {api.ListSettings{StartAt: 3, PageSize: math.MaxInt}, 0, true},
		"largest limit":    {api.ListSettings{PageSize: 10, Limit: math.MaxInt, Prefetch: 4}, 20, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := collect(t, newTestClient(t, cutOff()), test.settings)
			assert.Len(t, got, test.read)
			if test.complete {
				require.NoError(t, err)
				return
			}
			var incomplete *api.IncompleteListError
			require.ErrorAs(t, err, &incomplete)
			assert.Equal(t, api.IncompleteListError{Read: 20, Total: 50}, *incomplete)
			assert.EqualError(t, err, "dispensary: products.list GET /catalog/products: incomplete list: it ended after 20 of 50 records")
		})
	}
}

// An element that is not an object does not make a list incomplete.
func TestListCountsOmittedElements(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, &answers{answer: func(int, *http.Request) (*http.Response, error) {
		return reply(200, `{"products":[null,{"id":"1"},7,{"id":"2","name":{}},[]],"meta":{"current_page":1,"total_pages":1,"total_count":5}}`), nil
	}})
	for _, settings := range []api.ListSettings{{}, {Prefetch: 3}, {Limit: 5}} {
		got, err := collect(t, client, settings)
		require.NoError(t, err)
		assert.Len(t, got, 2)
	}
	page, err := listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{}).Page(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, page.Omitted)
}
