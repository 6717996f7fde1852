package transport

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/calloption"
	"github.com/dispensary-go/dispensary/internal/operation"
)

func TestPageContainsResponse(t *testing.T) {
	t.Parallel()
	const pages = 20
	for _, prefetch := range []int{0, 8} {
		t.Run(fmt.Sprint("prefetch ", prefetch), func(t *testing.T) {
			t.Parallel()
			transport := &answers{answer: func(_ int, r *http.Request) (*http.Response, error) {
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
	ids[0], options[0] = "\xff", func(*calloption.Settings) { t.Error("changed option") }
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
