package transport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// cutOff answers with 20 of 50 records, on pages of 10.
func cutOff() *answers {
	return &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
		var number int
		_, _ = fmt.Sscan(r.URL.Query().Get("page[number]"), &number)
		var items []string
		for i := (number - 1) * 10; i < min(number*10, 20); i++ {
			items = append(items, fmt.Sprintf(`{"id":"%d"}`, i))
		}
		return reply(200, fmt.Sprintf(`{"products":[%s],"meta":{"current_page":%d,"total_pages":2,"total_count":50}}`, strings.Join(items, ","), number)), nil
	}}
}

func TestListReportsEarlyEnd(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		paging   api.Paging
		read     int
		complete bool
	}{
		"all":              {api.Paging{PageSize: 10}, 20, false},
		"ahead":            {api.Paging{PageSize: 10, Prefetch: 4}, 20, false},
		"from page 2":      {api.Paging{PageSize: 10, Page: 2}, 10, false},
		"cap before end":   {api.Paging{PageSize: 10, MaxItems: 15}, 15, true},
		"cap at end":       {api.Paging{PageSize: 10, MaxItems: 20}, 20, true},
		"cap behind end":   {api.Paging{PageSize: 10, MaxItems: 30}, 20, false},
		"from behind list": {api.Paging{PageSize: 10, Page: 6}, 0, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := collect(t, newTestClient(t, cutOff()), test.paging)
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

func TestConsumerThatStopsGetsNoError(t *testing.T) {
	t.Parallel()
	for page, err := range Pages[thing](t.Context(), newTestClient(t, cutOff()), Call{Operation: operation.ProductList}, api.Paging{}) {
		require.NoError(t, err)
		if page.Meta.CurrentPage == 2 {
			break
		}
	}
}

// changing is a list that gains and loses records before each response.
type changing struct {
	mu     sync.Mutex
	random *rand.Rand
	total  int
}

func (c *changing) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total = max(0, c.total+c.random.IntN(21)-10)
	var size, number int
	_, _ = fmt.Sscan(r.URL.Query().Get("page[size]"), &size)
	_, _ = fmt.Sscan(r.URL.Query().Get("page[number]"), &number)
	items := strings.Repeat(`{"id":"x"},`, max(0, min(size, c.total-(number-1)*size)))
	return reply(200, fmt.Sprintf(`{"products":[%s],"meta":{"current_page":%d,"total_pages":%d,"total_count":%d}}`,
		strings.TrimSuffix(items, ","), number, (c.total+size-1)/size, c.total)), nil
}

func TestChangingListIsComplete(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		list := &changing{random: random, total: random.IntN(80)}
		paging := api.Paging{PageSize: 1 + random.IntN(12), Prefetch: random.IntN(5), Page: random.IntN(3)}
		_, err := collect(t, newTestClient(t, list), paging)
		var incomplete *api.IncompleteListError
		assert.False(t, errors.As(err, &incomplete), "seed %d: %v", seed, err)
		require.NoError(t, err)
	}
}

// An element that is not an object makes no list incomplete.
func TestListCountsOmittedElements(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, &answers{answer: func(int, *http.Request) (*http.Response, error) {
		return reply(200, `{"products":[null,{"id":"1"},7,{"id":"2","name":{}},[]],"meta":{"current_page":1,"total_pages":1,"total_count":5}}`), nil
	}})
	for _, paging := range []api.Paging{{}, {Prefetch: 3}, {MaxItems: 5}} {
		got, err := collect(t, client, paging)
		require.NoError(t, err)
		assert.Len(t, got, 2)
	}
	page, err := List[thing](t.Context(), client, Call{Operation: operation.ProductList}, api.Paging{})
	require.NoError(t, err)
	assert.Equal(t, 3, page.Omitted)
}
