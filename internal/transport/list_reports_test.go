package transport

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
	"github.com/dispensary-go/dispensary/internal/operation"
)

func TestPageContainsResponse(t *testing.T) {
	t.Parallel()
	const pages = 20
	for _, prefetch := range []int{0, 8} {
		t.Run(fmt.Sprint("prefetch ", prefetch), func(t *testing.T) {
			t.Parallel()
			transport := &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
				number := r.URL.Query().Get("page[number]")
				body := fmt.Sprintf(`{"products":[{"id":"p"}],"meta":{"current_page":%s,"total_pages":%d,"total_count":%[2]d}}`, number, pages)
				return reply(200, body, "X-Request-Id", number), nil
			}}
			client := newTestClient(t, transport)
			number := 0
			for page, err := range listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{Prefetch: prefetch}).Pages(t.Context()) {
				require.NoError(t, err)
				number++
				assert.Equal(t, fmt.Sprint(number), page.Response.RequestID)
				assert.Equal(t, 200, page.Response.StatusCode)
				assert.Equal(t, 1, page.Response.Attempts)
				assert.Equal(t, fmt.Sprint(number), page.Response.Header.Get("X-Request-Id"))
			}
			assert.Equal(t, pages, number)
		})
	}
}

// Several goroutines could write the response concurrently.
func TestListRejectsCaptureResponse(t *testing.T) {
	t.Parallel()
	transport := listing(5, 1)
	var captured api.Response
	call := Call{Operation: operation.ProductList, Options: []api.RequestOption{api.CaptureResponse(&captured)}}
	_, err := listOf(newTestClient(t, transport), call, api.ListSettings{}).Page(t.Context())
	require.ErrorIs(t, err, api.ErrArgument)
	require.EqualError(t, err, "dispensary: products.list: CaptureResponse cannot be used with lists: read Page.Response")
	assert.Zero(t, transport.calls.Load())
}

func TestListNamesEveryNegativeSetting(t *testing.T) {
	t.Parallel()
	transport := listing(5, 1)
	list := NewList[thing](newTestClient(t, transport), Call{Operation: operation.ProductList})
	for _, list := range []*api.List[thing]{list.StartAt(-1).PageSize(-1).Limit(-1).Prefetch(-1), list.Prefetch(-1).Limit(-1).PageSize(-1).StartAt(-1)} {
		for _, err := range list.All(t.Context()) {
			require.EqualError(t, err, "dispensary: products.list: page[number] must not be negative, page[size] must not be negative, "+
				"Limit must not be negative, Prefetch must not be negative")
		}
		_, err := list.Page(t.Context())
		require.ErrorIs(t, err, api.ErrArgument)
	}
	assert.Zero(t, transport.calls.Load())
}

// A list keeps its query and its options even if the caller changes both.
func TestListRunsConcurrently(t *testing.T) {
	t.Parallel()
	ids, options := []string{"a"}, []api.RequestOption{api.WithoutRetries()}
	client := newTestClient(t, listing(6, 2))
	list := NewList[thing](client, Call{Operation: operation.ProductSearch, Query: struct {
		IDs []string `url:"ids,brackets"`
	}{ids}, Options: options}).Prefetch(3)
	ids[0], options[0] = "\xff", func(*hidden.CallSettings) { t.Error("changed option") }
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			read := 0
			for _, err := range list.All(t.Context()) {
				assert.NoError(t, err)
				read++
			}
			assert.Equal(t, 12, read)
		})
	}
	running.Wait()
}

// cutOff responds with 20 of 50 records, in pages of 10.
func cutOff() *responder {
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
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
	client := newTestClient(t, &responder{respond: func(int, *http.Request) (*http.Response, error) {
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

func TestRawPagesReturnBodies(t *testing.T) {
	t.Parallel()
	type test struct {
		query  url.Values
		bodies []string // responses from the first page on
		want   []int    // the bodies that the caller gets
		sent   string   // the query of the first request
		err    string
	}
	const first, second = `{"anything":[{"id":"1"}],"meta":{"current_page":1,"total_pages":2,"total_count":2}}`,
		`{"meta":{"current_page":2,"total_pages":2,"total_count":2}, "anything":[7]}`
	for name, c := range map[string]test{
		"all":           {bodies: []string{first, second}, want: []int{0, 1}, sent: "page%5Bsize%5D=100&page%5Bnumber%5D=1"},
		"from page 2":   {query: url.Values{"a": {"b"}, "page[number]": {"2"}, "page[size]": {"1"}}, bodies: []string{second}, want: []int{0}, sent: "a=b&page%5Bsize%5D=1&page%5Bnumber%5D=2"},
		"repeated page": {query: url.Values{"page[number]": {"3"}}, bodies: []string{second}},
		"empty":         {bodies: []string{`{"anything":[],"meta":{"current_page":1,"total_pages":0,"total_count":0}}`}, want: []int{0}},
		"cut off":       {bodies: []string{first, `{"anything":[],"meta":{"current_page":2,"total_pages":2,"total_count":9}}`}, want: []int{0, 1}, err: "incomplete list: it ended after 1 of 9 records"},
		"no meta":       {bodies: []string{`{"anything":[{}]}`}, err: "has no meta"},
		"no array":      {bodies: []string{`{"meta":{"current_page":1,"total_pages":1,"total_count":1}}`}, err: "has no list"},
		"two arrays":    {bodies: []string{`{"a":[],"b":[],"meta":{"current_page":1,"total_pages":1,"total_count":1}}`}, err: "has no single list"},
		"no object":     {bodies: []string{`[]`}, err: "is not a JSON object"},
		"bad number":    {query: url.Values{"page[number]": {"canary"}}, err: "page[number] must be a positive number"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := &responder{respond: func(n int, r *http.Request) (*http.Response, error) {
				if n == 1 && c.sent != "" {
					assert.Equal(t, c.sent, r.URL.RawQuery)
				}
				return reply(200, c.bodies[n-1]), nil
			}}
			var want, got []string
			for _, n := range c.want {
				want = append(want, c.bodies[n])
			}
			var last error
			for body, err := range RawPages(t.Context(), newTestClient(t, transport), http.MethodGet, "/x", c.query, nil, nil) {
				if last = err; err == nil {
					got = append(got, string(body))
				}
			}
			assert.Equal(t, want, got)
			if c.err == "" {
				require.NoError(t, last)
				return
			}
			require.ErrorContains(t, last, c.err)
			assert.NotContains(t, last.Error(), "canary")
		})
	}
}

func TestRawPagesOnlyRead(t *testing.T) {
	t.Parallel()
	transport := &responder{}
	for _, err := range RawPages(t.Context(), newTestClient(t, transport), http.MethodPost, "/x", nil, nil, nil) {
		require.ErrorIs(t, err, api.ErrArgument)
	}
}
