package transport

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/operation"
)

func TestListReportsPagesAsTheyAreTaken(t *testing.T) {
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
			var captured api.Response
			call := Call{Operation: operation.ProductList, Options: []api.RequestOption{api.CaptureResponse(&captured)}}
			number := 0
			for _, err := range listOf(client, call, api.ListSettings{Prefetch: prefetch}).Pages(t.Context()) {
				require.NoError(t, err)
				number++
				assert.Equal(t, fmt.Sprint(number), captured.RequestID)
			}
			assert.Equal(t, pages, number)
		})
	}
}

func TestPrefetchCapturesFailure(t *testing.T) {
	t.Parallel()
	transport := listing(5, 1)
	pages := transport.answer
	transport.answer = func(call int, r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("page[number]") == "3" {
			return reply(404, `{}`, "X-Request-Id", "lost"), nil
		}
		return pages(call, r)
	}
	var captured api.Response
	call := Call{Operation: operation.ProductList, Options: []api.RequestOption{api.CaptureResponse(&captured)}}
	read, failed := 0, error(nil)
	for _, failed = range listOf(newTestClient(t, transport), call, api.ListSettings{Prefetch: 4}).All(t.Context()) {
		if failed == nil {
			read++
		}
	}
	require.ErrorIs(t, failed, api.ErrNotFound)
	assert.Equal(t, 2, read)
	assert.Equal(t, "lost", captured.RequestID)
}
