package transport

import (
	"context"
	"runtime"
	"sync"

	"github.com/dispensary-go/dispensary/api"
)

// prefetched yields the pages of a list in order and fetches up to Prefetch of them
// concurrently. It reports whether it reached the end. The first page contains the number of
// pages. Pages beyond this number, or beyond the estimated last page for Limit, are fetched
// one after the other.
func prefetched[T any](ctx context.Context, c *Client, r *listRun, yield func(*api.Page[T], error) bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	f := &prefetcher[T]{ctx: ctx, client: c, run: r}
	defer f.running.Wait() // no goroutine outlives the list
	defer cancel()
	f.start(r.first)
	for len(f.pending) > 0 {
		number, page, err := f.take()
		if err != nil {
			yield(nil, err)
			return false
		}
		next := takePage(r, number, page)
		switch {
		case next == 0:
			f.pending = nil // the list has become shorter, or Limit is reached
		case len(f.pending) == 0:
			f.start(next)
			fallthrough
		default:
			f.ahead(lastPage(r, number, page), r.Prefetch)
		}
		if !yield(page, nil) {
			return false
		}
	}
	return true
}

// lastPage estimates the number of the last page that the caller needs, from the size of the
// page with the given number.
func lastPage[T any](r *listRun, number int, page *api.Page[T]) int {
	last := page.Meta.TotalPages
	if size := len(page.Items); r.Limit > 0 && size > 0 {
		last = min(last-number, (r.Limit-r.read-1)/size+1) + number
	}
	return last
}

// prefetcher contains the requested pages in order.
type prefetcher[T any] struct {
	ctx     context.Context
	client  *Client
	run     *listRun
	running sync.WaitGroup
	pending []pageFetch[T]
	last    int // last requested page
}

// pageFetch is a requested page.
type pageFetch[T any] struct {
	number int
	answer chan fetchedPage[T]
}

// fetchedPage is the result of a fetch. A panic of the program's code, for example of a token
// source, is raised again in the goroutine that reads the list.
type fetchedPage[T any] struct {
	page     *api.Page[T]
	err      error
	unwound  bool // by a panic, or by [runtime.Goexit] if panicked is nil
	panicked any
}

// start starts fetching a page.
func (f *prefetcher[T]) start(number int) {
	answer := make(chan fetchedPage[T], 1) // buffered, so an unused page blocks no goroutine
	f.pending, f.last = append(f.pending, pageFetch[T]{number, answer}), number
	f.running.Go(func() {
		got := fetchedPage[T]{unwound: true}
		defer func() {
			if got.unwound {
				got.panicked = recover()
			}
			answer <- got
		}()
		got.page, got.err = fetchPage[T](f.ctx, f.client, f.run, number)
		got.unwound = false
	})
}

// ahead starts fetching the next pages, up to window pages at a time.
func (f *prefetcher[T]) ahead(total, window int) {
	for len(f.pending) < window && f.last < total {
		f.start(f.last + 1)
	}
}

// take waits for the next page in order. After the end of the context it returns no more
// pages, not even those already fetched, so a list ends the same way with and without
// prefetching.
func (f *prefetcher[T]) take() (number int, page *api.Page[T], err error) {
	if err := f.ctx.Err(); err != nil {
		return 0, nil, f.run.failed(err)
	}
	first := f.pending[0]
	f.pending = f.pending[1:]
	got := <-first.answer
	switch {
	case got.panicked != nil:
		panic(got.panicked)
	case got.unwound:
		runtime.Goexit()
	}
	return first.number, got.page, got.err
}
