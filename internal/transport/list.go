package transport

import (
	"context"
	"iter"
	"net/url"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
)

// pageSize is what is asked for where a caller does not say. The platform is
// assumed to give no more than this.
const pageSize = 100

// List returns the page that paging names.
func List[T any](ctx context.Context, c *Client, call Call, paging api.Paging) (*api.Page[T], error) {
	w, err := newWalk(call, paging)
	if err != nil {
		return nil, err
	}
	return fetch[T](ctx, c, w, w.first)
}

// Pages returns the pages of a list, from the one that paging names to the last.
// The sequence fetches anew each time it is ranged over; an error ends it.
func Pages[T any](ctx context.Context, c *Client, call Call, paging api.Paging) iter.Seq2[*api.Page[T], error] {
	return func(yield func(*api.Page[T], error) bool) {
		w, err := newWalk(call, paging)
		if err != nil {
			yield(nil, err)
			return
		}
		left := paging.MaxItems
		for page, err := range pages[T](ctx, c, w, paging.Prefetch) {
			if err != nil {
				yield(nil, err)
				return
			}
			w.noteDrift(page.Meta, paging.OnDrift)
			last := paging.MaxItems > 0 && len(page.Items) >= left
			if last {
				page.Items = page.Items[:left]
			}
			left -= len(page.Items)
			if !yield(page, nil) || last {
				return
			}
		}
	}
}

func pages[T any](ctx context.Context, c *Client, w *walk, prefetch int) iter.Seq2[*api.Page[T], error] {
	if prefetch > 1 {
		return prefetched[T](ctx, c, w, prefetch)
	}
	return func(yield func(*api.Page[T], error) bool) {
		for number := w.first; number != 0; {
			page, err := fetch[T](ctx, c, w, number)
			if err != nil {
				yield(nil, err)
				return
			}
			number = nextPage(page.Meta, number)
			if !yield(page, nil) {
				return
			}
		}
	}
}

// All returns the items of a list, page after page. The sequence fetches anew
// each time it is ranged over; an error ends it.
func All[T any](ctx context.Context, c *Client, call Call, paging api.Paging) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range Pages[T](ctx, c, call, paging) {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// walk is a list call whose query is encoded once for all its pages.
type walk struct {
	call  Call
	query string
	first int
	count int // of records, as the last page told; -1 before the first
}

func newWalk(call Call, paging api.Paging) (*walk, error) {
	if err := paging.Validate(); err != nil {
		return nil, err
	}
	w := &walk{call: call, first: max(paging.Page, 1), count: -1}
	if call.Query != nil {
		var err error
		if w.query, err = encodeQuery(&call); err != nil {
			return nil, err
		}
	}
	size := paging.PageSize
	if size == 0 {
		size = pageSize
	}
	if w.query != "" {
		w.query += "&"
	}
	w.query += url.QueryEscape("page[size]") + "=" + strconv.Itoa(size) + "&" + url.QueryEscape("page[number]") + "="
	return w, nil
}

// noteDrift compares what each page tells of the whole list.
func (w *walk) noteDrift(meta api.Meta, report func(api.Drift)) {
	before := w.count
	w.count = int(meta.TotalCount)
	if report != nil && before >= 0 && before != w.count {
		report(api.Drift{Page: int(meta.CurrentPage), Before: before, After: w.count})
	}
}

// fetch gets one page of the walk. A platform that ignores the page number would
// serve the first page for ever; the page's own number tells, and where it has none
// the number of the page that follows.
func fetch[T any](ctx context.Context, c *Client, w *walk, number int) (*api.Page[T], error) {
	call := w.call
	call.encodedQuery = w.query + strconv.Itoa(number)
	got, err := page[T](ctx, c, &call)
	if err != nil {
		return nil, err
	}
	current, next := int(got.Meta.CurrentPage), int(got.Meta.NextPage)
	switch {
	case current != 0 && current != number:
		return nil, w.failed(&decodeError{"asked for page " + strconv.Itoa(number) + ", got page " + strconv.Itoa(current)})
	case current == 0 && next > 0 && next <= number:
		return nil, w.failed(&decodeError{"asked for page " + strconv.Itoa(number) + ", got a page that is followed by page " + strconv.Itoa(next)})
	}
	return got, nil
}

// failed is an error of the walk as a whole, and of no single answer.
func (w *walk) failed(cause error) *api.Error {
	op := w.call.Operation
	return api.NewError(api.Error{Operation: op.Name, Method: op.Method, Route: op.Route}, cause, nil, nil)
}

// nextPage returns the number of the page that follows the one with the given
// number, or 0: it is greater, whatever meta says. Whether a page has items does not
// matter: one may be empty because its items are gone by now.
func nextPage(meta api.Meta, number int) int {
	switch next, total := int(meta.NextPage), int(meta.TotalPages); {
	case next > number:
		return next
	case next == 0 && number < total:
		return number + 1
	}
	return 0
}
