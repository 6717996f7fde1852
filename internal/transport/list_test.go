package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

// param returns a number of the query, or 0 if there is none.
func param(r *http.Request, name string) (n int) {
	_, _ = fmt.Sscan(r.URL.Query().Get(name), &n)
	return n
}

// products returns a page with the things numbered from first to end-1.
func products(first, end int, meta string, args ...any) *http.Response {
	var items []string
	for i := first; i < end; i++ {
		items = append(items, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	return reply(200, `{"products":[`+strings.Join(items, ",")+`],"meta":`+fmt.Sprintf(meta, args...)+`}`)
}

// listing responds with pages of numbered things.
func listing(pages, perPage int) *responder {
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
		number, next := param(r, "page[number]"), "null"
		if number < pages {
			next = fmt.Sprint(number + 1)
		}
		return products((number-1)*perPage, number*perPage,
			`{"current_page":%d,"next_page":%s,"prev_page":null,"total_pages":%d,"total_count":%d}`, number, next, pages, pages*perPage), nil
	}}
}

// listOf returns the list of a call with settings.
func listOf(client *Client, call Call, s api.ListSettings) *api.List[thing] {
	return NewList[thing](client, call).StartAt(s.StartAt).PageSize(s.PageSize).Limit(s.Limit).Prefetch(s.Prefetch).OnDrift(s.OnDrift)
}

func collect(t *testing.T, client *Client, settings api.ListSettings) ([]string, error) {
	t.Helper()
	var ids []string
	for item, err := range listOf(client, Call{Operation: operation.ProductList}, settings).All(t.Context()) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, item.ID)
	}
	return ids, nil
}

func TestListReturnsItemsInOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pages, perPage int
		settings       api.ListSettings
		want           []string
		calls          int32
	}{
		"all":                  {3, 2, api.ListSettings{}, numbers(6), 3},
		"one page":             {1, 2, api.ListSettings{}, numbers(2), 1},
		"nothing":              {0, 0, api.ListSettings{}, nil, 1},
		"empty pages":          {3, 0, api.ListSettings{}, nil, 3},
		"resumed":              {3, 2, api.ListSettings{StartAt: 2}, numbers(6)[2:], 2},
		"limit within a page":  {3, 2, api.ListSettings{Limit: 3}, numbers(3), 2},
		"limit at a page":      {3, 2, api.ListSettings{Limit: 2}, numbers(2), 1},
		"limit beyond the end": {2, 2, api.ListSettings{Limit: 9}, numbers(4), 2},
		"limit and empty page": {2, 0, api.ListSettings{Limit: 1}, nil, 2},
		"limit, prefetch":      {10, 3, api.ListSettings{Limit: 7, Prefetch: 4}, numbers(7), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := listing(test.pages, test.perPage)
			client := newTestClient(t, transport)
			got, err := collect(t, client, test.settings)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
			if test.settings.Prefetch == 0 {
				assert.Equal(t, test.calls, transport.calls.Load())
			}

			again, err := collect(t, client, test.settings)
			require.NoError(t, err)
			assert.Equal(t, got, again, "a list can be read twice")
		})
	}
}

// metas responds to each page with one thing and its meta from list. The last meta repeats.
func metas(list ...string) *responder {
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
		number := param(r, "page[number]")
		return products(number-1, number, "%s", list[min(number, len(list))-1]), nil
	}}
}

// A list ends with any numbers in meta, and it does not skip pages that the platform names.
func TestListDoesNotTrustMeta(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		metas []string
		want  []string
		fails bool
		calls int32
	}{
		"current page stays":                {[]string{`{"current_page":1,"next_page":2,"total_pages":9,"total_count":9}`}, []string{"0"}, true, 2},
		"no current page, next stays":       {[]string{`{"next_page":2}`}, []string{"0"}, true, 2},
		"no current page, next goes back":   {[]string{`{"next_page":2}`, `{"next_page":1}`}, []string{"0"}, true, 2},
		"no current page":                   {[]string{`{"next_page":2}`, `{"next_page":3}`, `{"next_page":null}`}, numbers(3), false, 3},
		"neither current nor next page":     {[]string{`{"total_pages":3}`}, numbers(3), false, 3},
		"next page negative":                {[]string{`{"current_page":1,"next_page":-1,"total_pages":3}`}, numbers(1), false, 1},
		"all negative":                      {[]string{`{"current_page":-1,"next_page":-1,"total_pages":-1}`}, nil, true, 1},
		"next page is the current one":      {[]string{`{"current_page":1,"next_page":1}`}, numbers(1), false, 1},
		"nothing":                           {[]string{`{}`}, numbers(1), false, 1},
		"more pages than any list can have": {[]string{`{"current_page":1,"total_pages":9223372036854775807}`, `{"current_page":2}`}, numbers(2), false, 2},
	}
	for name, test := range tests {
		for _, prefetch := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s, prefetch %d", name, prefetch), func(t *testing.T) {
				t.Parallel()
				platform := metas(test.metas...)
				var got []string
				var err error
				for item, problem := range listOf(newTestClient(t, platform), Call{Operation: operation.ProductList}, api.ListSettings{Prefetch: prefetch}).All(t.Context()) {
					if err = problem; err != nil {
						break
					}
					if got = append(got, item.ID); len(got) > 9 {
						break // endless
					}
				}
				assert.Equal(t, test.want, got)
				assert.Equal(t, test.fails, errors.Is(err, api.ErrBadResponse), "%v", err)
				if prefetch == 0 {
					assert.Equal(t, test.calls, platform.calls.Load())
				}
			})
		}
	}
}

// A list ends after its last page even if the platform names a next page on every page. An
// empty page before the last one does not end it.
func TestListEndsDespiteEndlessNextPages(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pages []int // number of things in each page
		calls int32
	}{
		"no page":    {nil, 1},
		"two pages":  {[]int{1, 1}, 3},
		"empty page": {[]int{1, 0, 1}, 4},
	} {
		for _, prefetch := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s, prefetch %d", name, prefetch), func(t *testing.T) {
				t.Parallel()
				platform := &responder{respond: func(call int, r *http.Request) (*http.Response, error) {
					if call > 20 {
						return nil, errors.New("endless")
					}
					number, things := param(r, "page[number]"), 0
					if number <= len(test.pages) {
						things = test.pages[number-1]
					}
					return products(number, number+things, `{"current_page":%d,"next_page":%d,"total_pages":%d}`, number, number+1, len(test.pages)), nil
				}}
				var want []string
				for i, things := range test.pages {
					if things > 0 {
						want = append(want, fmt.Sprint(i+1))
					}
				}
				got, err := collect(t, newTestClient(t, platform), api.ListSettings{Prefetch: prefetch})
				require.NoError(t, err)
				assert.Equal(t, want, got)
				if prefetch == 0 {
					assert.Equal(t, test.calls, platform.calls.Load())
				}
			})
		}
	}
}

// slow responds to each request of inner after a delay and counts concurrent requests.
type slow struct {
	inner       http.RoundTripper
	latency     time.Duration
	mu          sync.Mutex
	under, most int
	requested   atomic.Int32
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requested.Add(1)
	s.mu.Lock()
	s.under++
	s.most = max(s.most, s.under)
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.under--; s.mu.Unlock() }()
	select {
	case <-time.After(s.latency):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return s.inner.RoundTrip(r)
}

func numbers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}

func TestPrefetchKeepsOrderAndIsFaster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		walk := func(prefetch int) (time.Duration, *slow) {
			transport := &slow{inner: listing(100, 100), latency: 20 * time.Millisecond}
			start := time.Now()
			got, err := collect(t, newTestClient(t, transport), api.ListSettings{Prefetch: prefetch})
			require.NoError(t, err)
			assert.Equal(t, numbers(10_000), got)
			return time.Since(start), transport
		}
		sequential, _ := walk(0)
		assert.Equal(t, 100*20*time.Millisecond, sequential)
		ahead, transport := walk(8)
		assert.LessOrEqual(t, ahead, sequential/6)
		assert.Equal(t, 8, transport.most)
		assert.EqualValues(t, 100, transport.requested.Load())
	})
}

// Prefetching for a slow consumer is limited.
func TestPrefetchStaysWithinWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &slow{inner: listing(50, 2), latency: time.Millisecond}
		var consumed int32
		client := newTestClient(t, transport)
		for _, err := range listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{Prefetch: 4}).Pages(t.Context()) {
			require.NoError(t, err)
			consumed++
			time.Sleep(time.Second)
			assert.LessOrEqual(t, transport.requested.Load(), consumed+4)
		}
		assert.EqualValues(t, 50, consumed)
	})
}

// A synctest bubble fails if a goroutine outlives it.
func TestPrefetchLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	ends := map[string]func(page int, cancel func()) bool{
		"consumer stops": func(page int, _ func()) bool { return page == 3 },
		"caller cancels": func(page int, cancel func()) bool {
			if page == 3 {
				cancel()
			}
			return false
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := &slow{inner: listing(100, 1), latency: 20 * time.Second}
				client := newTestClient(t, transport)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var page int
				for _, err := range listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{Prefetch: 8}).Pages(ctx) {
					if err != nil {
						break
					}
					if page++; end(page, cancel) {
						break
					}
				}
				assert.Equal(t, 3, page)
				assert.Zero(t, transport.under)
			})
		})
	}
}

// A list may grow or shrink during a run. The run ends with the list and reports the change.
func TestChangingListReportsDrift(t *testing.T) {
	t.Parallel()
	for name, prefetch := range map[string]int{"one by one": 0, "ahead": 3} {
		for change, after := range map[string]int{"grows": 7, "shrinks": 3} {
			t.Run(name+", "+change, func(t *testing.T) {
				t.Parallel()
				before, then := listing(5, 1), listing(after, 1)
				transport := &responder{respond: func(call int, r *http.Request) (*http.Response, error) {
					if number := r.URL.Query().Get("page[number]"); number == "1" {
						return before.respond(call, r)
					}
					return then.respond(call, r)
				}}
				var drifts []api.Drift
				got, err := collect(t, newTestClient(t, transport), api.ListSettings{
					Prefetch: prefetch, OnDrift: func(d api.Drift) { drifts = append(drifts, d) },
				})
				require.NoError(t, err)
				assert.Equal(t, numbers(after), got)
				assert.Equal(t, []api.Drift{{Page: 2, Before: 5, After: after}}, drifts)
			})
		}
	}
}

// sized responds with pages of the requested size, at most limit.
func sized(total, limit int, query func(size int)) *responder {
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
		size, number := param(r, "page[size]"), param(r, "page[number]")
		query(size)
		size = min(size, limit)
		return products((number-1)*size, min(number*size, total),
			`{"current_page":%d,"total_pages":%d,"total_count":%d}`, number, (total+size-1)/size, total), nil
	}}
}

func TestLimitBoundsRequests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		settings    api.ListSettings
		limit       int
		size, calls int32
	}{
		"few":                   {api.ListSettings{Limit: 10}, 100, 10, 1},
		"few, ahead":            {api.ListSettings{Limit: 10, Prefetch: 16}, 100, 10, 1},
		"many":                  {api.ListSettings{Limit: 250, Prefetch: 16}, 100, 100, 3},
		"caller's size":         {api.ListSettings{Limit: 10, PageSize: 4, Prefetch: 16}, 100, 4, 3},
		"size beyond limit":     {api.ListSettings{Limit: 10, PageSize: 50, Prefetch: 16}, 100, 10, 1},
		"smaller pages":         {api.ListSettings{Limit: 100, Prefetch: 16}, 20, 100, 5},
		"later first page":      {api.ListSettings{Limit: 10, StartAt: 3, Prefetch: 16}, 100, 100, 1},
		"later page, some more": {api.ListSettings{Limit: 150, StartAt: 3, Prefetch: 16}, 100, 100, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var calls, size atomic.Int32
				transport := sized(5000, test.limit, func(asked int) { calls.Add(1); size.Store(int32(asked)) })
				client := newTestClient(t, transport)
				read := 0
				for page, err := range listOf(client, Call{Operation: operation.ProductList}, test.settings).Pages(t.Context()) {
					require.NoError(t, err)
					read += len(page.Items)
					time.Sleep(time.Second)
				}
				assert.Equal(t, test.settings.Limit, read)
				assert.Equal(t, test.calls, calls.Load())
				assert.Equal(t, test.size, size.Load())
			})
		})
	}
}

func TestPageRespectsLimit(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, sized(5000, 100, func(size int) { assert.Equal(t, 10, size) }))
	page, err := listOf(client, Call{Operation: operation.ProductList}, api.ListSettings{Limit: 10}).Page(t.Context())
	require.NoError(t, err)
	assert.Len(t, page.Items, 10)
}

// clamped responds to a number after the last page with the last page. After page 1 it removes
// gone items from the end.
func clamped(total, gone int) *responder {
	var lost atomic.Int32
	return &responder{respond: func(_ int, r *http.Request) (*http.Response, error) {
		number, left := param(r, "page[number]"), total-int(lost.Load())
		if number == 1 {
			lost.Store(int32(gone))
		}
		pages := (left + 2) / 3
		number = min(number, max(pages, 1))
		return products((number-1)*3, min(number*3, left), `{"current_page":%d,"total_pages":%d,"total_count":%d}`, number, pages, left), nil
	}}
}

func TestRepeatedLastPageEndsList(t *testing.T) {
	t.Parallel()
	for _, prefetch := range []int{0, 3} {
		got, err := collect(t, newTestClient(t, clamped(7, 1)), api.ListSettings{PageSize: 3, Prefetch: prefetch})
		require.NoError(t, err)
		assert.Equal(t, numbers(6), got)
		got, err = collect(t, newTestClient(t, clamped(7, 7)), api.ListSettings{PageSize: 3, Prefetch: prefetch})
		require.NoError(t, err, "all records are gone, so there is page 1 of 0")
		assert.Equal(t, numbers(3), got)
	}
	_, err := collect(t, newTestClient(t, metas(`{"current_page":1,"next_page":2}`)), api.ListSettings{})
	require.ErrorIs(t, err, api.ErrBadResponse, "page 1 has records, so the platform ignores the number")
	page, err := listOf(newTestClient(t, clamped(7, 0)), Call{Operation: operation.ProductList}, api.ListSettings{StartAt: 9}).Page(t.Context())
	require.NoError(t, err)
	assert.Empty(t, page.Items)
	assert.Zero(t, page.Meta.NextPage)
	assert.EqualValues(t, 7, page.Meta.TotalCount)
}

// A list may run several times at once, each time with other settings.
func TestRunsOfListShareNoErrors(t *testing.T) {
	t.Parallel()
	list := newListCall(Call{Operation: operation.ProductList})
	list.wrong = append(make(api.ArgumentErrors, 0, 4), list.invalid("query", "is invalid"))
	first := newListRun(list, api.ListSettings{StartAt: -1})
	_ = newListRun(list, api.ListSettings{Limit: -1})
	require.Len(t, first.wrong, 2)
	assert.Equal(t, "page[number]", first.wrong[1].Field)
}

func TestPrefetchExpectsLastPartialPage(t *testing.T) {
	t.Parallel()
	page := &api.Page[thing]{Items: make([]thing, 10), Meta: api.Meta{TotalPages: 9}}
	for limit, last := range map[int]int{0: 9, 11: 2, 20: 2, 21: 3, 25: 3, 1000: 9} {
		run := &listRun{ListSettings: api.ListSettings{Limit: limit}, read: 10}
		assert.Equal(t, last, lastPage(run, 1, page), "Limit %d", limit)
	}
}
