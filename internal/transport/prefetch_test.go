package transport

import (
	"context"
	"fmt"
	"net/http"
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

// slow answers each request of inner after a while and counts how many are under
// way.
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
			got, err := collect(t, newTestClient(t, transport), api.Paging{Prefetch: prefetch})
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

// What is fetched ahead of a consumer who takes its time is bounded.
func TestPrefetchStaysWithinItsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := &slow{inner: listing(50, 2), latency: time.Millisecond}
		var consumed int32
		client := newTestClient(t, transport)
		for _, err := range Pages[thing](t.Context(), client, Call{Operation: operation.ProductList}, api.Paging{Prefetch: 4}) {
			require.NoError(t, err)
			consumed++
			time.Sleep(time.Second)
			assert.LessOrEqual(t, transport.requested.Load(), consumed+4)
		}
		assert.EqualValues(t, 50, consumed)
	})
}

// A synctest bubble fails if a goroutine outlives it.
func TestPrefetchLeavesNothingBehind(t *testing.T) {
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
				transport := &slow{inner: listing(100, 1), latency: time.Hour}
				client := newTestClient(t, transport, func(c *Config) { c.HTTPClient.Timeout = 0 })
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var page int
				for _, err := range Pages[thing](ctx, client, Call{Operation: operation.ProductList}, api.Paging{Prefetch: 8}) {
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

func TestPrefetchPassesErrorsOnInOrder(t *testing.T) {
	t.Parallel()
	pages := listing(10, 1)
	transport := &answers{answer: func(call int, r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("page[number]") == "4" {
			return reply(404, ""), nil
		}
		return pages.answer(call, r)
	}}
	got, err := collect(t, newTestClient(t, transport), api.Paging{Prefetch: 8})
	assert.ErrorIs(t, err, api.ErrNotFound)
	assert.Equal(t, numbers(3), got)
}

// A list may grow and shrink while it is read; the sequence ends with the list, and
// the change is reported.
func TestListThatChangesWhileItIsRead(t *testing.T) {
	t.Parallel()
	for name, prefetch := range map[string]int{"one by one": 0, "ahead": 3} {
		for change, after := range map[string]int{"grows": 7, "shrinks": 3} {
			t.Run(name+", "+change, func(t *testing.T) {
				t.Parallel()
				before, then := listing(5, 1), listing(after, 1)
				transport := &answers{answer: func(call int, r *http.Request) (*http.Response, error) {
					if number := r.URL.Query().Get("page[number]"); number == "1" {
						return before.answer(call, r)
					}
					return then.answer(call, r)
				}}
				var drifts []api.Drift
				got, err := collect(t, newTestClient(t, transport), api.Paging{
					Prefetch: prefetch, OnDrift: func(d api.Drift) { drifts = append(drifts, d) },
				})
				require.NoError(t, err)
				assert.Equal(t, numbers(after), got)
				assert.Equal(t, []api.Drift{{Page: 2, Before: 5, After: after}}, drifts)
			})
		}
	}
}
