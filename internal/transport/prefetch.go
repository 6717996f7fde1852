package transport

import (
	"context"
	"iter"
	"runtime"
	"sync"

	"github.com/dispensary-go/dispensary/api"
)

// prefetched returns the pages of a walk in order and fetches up to window of
// them at the same time. The first page tells how many there are; what the list
// grows by meanwhile is fetched one after the other.
func prefetched[T any](ctx context.Context, c *Client, w *walk, window int) iter.Seq2[*api.Page[T], error] {
	return func(yield func(*api.Page[T], error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		f := &fetches[T]{ctx: ctx, client: c, walk: w}
		defer f.running.Wait() // nothing outlives the walk
		defer cancel()
		f.start(w.first)
		for {
			number, page, err := f.take()
			if err != nil {
				yield(nil, err)
				return
			}
			next := nextPage(page.Meta, number)
			switch {
			case next == 0:
				f.under = nil // the list has become shorter: what was asked for beyond its end is empty
			case len(f.under) == 0:
				f.start(next)
				fallthrough
			default:
				f.ahead(int(page.Meta.TotalPages), window)
			}
			if !yield(page, nil) || len(f.under) == 0 {
				return
			}
		}
	}
}

// fetches are the pages under way, in order.
type fetches[T any] struct {
	ctx     context.Context
	client  *Client
	walk    *walk
	running sync.WaitGroup
	under   []pageFetch[T]
	last    int // page that was asked for
}

// pageFetch is a page that was asked for.
type pageFetch[T any] struct {
	number int
	answer chan fetched[T]
}

// fetched is how a fetch ended. What a program's own code did to the goroutine, a
// token source's say, is done again where the walk is made.
type fetched[T any] struct {
	page     *api.Page[T]
	err      error
	unwound  bool // by a panic, or by [runtime.Goexit] where panicked is nil
	panicked any
}

// start asks for a page.
func (f *fetches[T]) start(number int) {
	answer := make(chan fetched[T], 1) // so that a page nobody waits for blocks nobody
	f.under, f.last = append(f.under, pageFetch[T]{number, answer}), number
	f.running.Go(func() {
		got := fetched[T]{unwound: true}
		defer func() {
			if got.unwound {
				got.panicked = recover()
			}
			answer <- got
		}()
		got.page, got.err = fetch[T](f.ctx, f.client, f.walk, number)
		got.unwound = false
	})
}

// ahead asks for the pages that follow, as far as the window goes.
func (f *fetches[T]) ahead(total, window int) {
	for len(f.under) < window && f.last < total {
		f.start(f.last + 1)
	}
}

// take waits for the next page in order. A caller who has left gets no more, even
// of what is there already: a walk ends the same way with and without a window.
func (f *fetches[T]) take() (number int, page *api.Page[T], err error) {
	if err := f.ctx.Err(); err != nil {
		return 0, nil, f.walk.failed(err)
	}
	first := f.under[0]
	f.under = f.under[1:]
	got := <-first.answer
	switch {
	case got.panicked != nil:
		panic(got.panicked)
	case got.unwound:
		runtime.Goexit()
	}
	return first.number, got.page, got.err
}
