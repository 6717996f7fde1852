package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apikit"
	"github.com/dispensary-go/dispensary/internal/apikit/hidden"
)

// pageSize is the default page size. Assumption: the platform returns no larger pages.
const pageSize = 100

const (
	sizeParam   = "page%5Bsize%5D="
	numberParam = "&page%5Bnumber%5D="
)

// listCall is the call of a list. Its query is encoded once for all runs.
type listCall struct {
	Call
	query string // ends before the value of the page size
}

// newListCall encodes the query. The first page of a run reports invalid arguments.
func newListCall(call Call) *listCall {
	l := &listCall{Call: call}
	l.Options = slices.Clone(call.Options)
	if call.Query != nil {
		encoded, wrong := call.encodeQuery()
		l.wrong = append(l.wrong, wrong...)
		if encoded != "" {
			l.query = encoded + "&"
		}
	}
	l.query += sizeParam
	return l
}

// NewList returns the list of a call. Its pages contain the items under the key of the
// operation. The last error of a run may be an [api.IncompleteListError].
//
// It rejects [api.CaptureResponse], because several goroutines may read pages concurrently.
func NewList[T any](c *Client, call Call) *api.List[T] {
	l := newListCall(call)
	if len(call.Options) > 0 {
		var settings hidden.CallSettings
		if l.apply(&settings); len(settings.Captures) > 0 {
			l.wrong = append(l.wrong, l.invalid("CaptureResponse", "cannot be used with lists: read Page.Response"))
		}
	}
	return api.NewList(func(ctx context.Context, s api.ListSettings) iter.Seq2[*api.Page[T], error] {
		return func(yield func(*api.Page[T], error) bool) {
			readPages(ctx, c, newListRun(l, boundPageSize(s)), yield)
		}
	})
}

// listRun is one pass through a list, with the counts of its pages so far.
type listRun struct {
	*listCall
	api.ListSettings
	query string // ends before the value of the page number
	wrong api.ArgumentErrors
	first int
	count int // total of records, or -1 before the first page
	read  int // items returned to the caller

	omitted int // elements omitted from pages
}

func newListRun(l *listCall, s api.ListSettings) *listRun {
	r := &listRun{listCall: l, ListSettings: s, wrong: l.wrong, first: max(s.StartAt, 1), count: -1}
	r.query = l.query + strconv.Itoa(cmp.Or(s.PageSize, pageSize)) + numberParam
	for _, setting := range []struct {
		name  string
		value int
	}{{"page[number]", s.StartAt}, {"page[size]", s.PageSize}, {"Limit", s.Limit}, {"Prefetch", s.Prefetch}} {
		if setting.value < 0 {
			r.wrong = append(slices.Clip(r.wrong), l.invalid(setting.name, "must not be negative"))
		}
	}
	return r
}

// boundPageSize returns settings with at most Limit items in a page. It keeps the full size if
// StartAt is a later page, because page numbers depend on the size.
func boundPageSize(s api.ListSettings) api.ListSettings {
	if s.Limit > 0 && s.StartAt <= 1 && s.PageSize >= 0 {
		s.PageSize = min(cmp.Or(s.PageSize, pageSize), s.Limit)
	}
	return s
}

// readPages yields the pages of a run. It stops after an error.
func readPages[T any](ctx context.Context, c *Client, r *listRun, yield func(*api.Page[T], error) bool) {
	ctx = c.OneAccount(ctx)
	var ended bool
	if r.Prefetch > 1 {
		ended = prefetched(ctx, c, r, yield)
	} else {
		ended = sequential(ctx, c, r, yield)
	}
	if !ended {
		return
	}
	if err := r.checkComplete(); err != nil {
		yield(nil, err)
	}
}

// takePage prepares a page for the caller: it reports drift and removes the items beyond
// Limit. It returns the number of the next page, or 0 if there is none.
func takePage[T any](r *listRun, number int, page *api.Page[T]) (next int) {
	r.noteDrift(page.Meta)
	next = nextPage(page.Meta, number)
	if left := r.Limit - r.read; r.Limit > 0 && len(page.Items) >= left {
		page.Items, next = page.Items[:left], 0
	}
	r.read += len(page.Items)
	r.omitted += page.Omitted
	return next
}

// fetchPage fetches one page. It detects two faults of a platform that would make the list
// endless:
//
//   - The platform ignores the page number and returns the first page each time. The page
//     number in the response shows this or, if it is missing, the number of the next page.
//   - The platform names a next page after the last one too, and returns empty pages.
//     fetchPage ends the list at an empty page at or after the last page.
//
// If the platform repeats the last page for a later number, fetchPage returns an empty page. The
// last page of a list without records is page 1 of 0.
func fetchPage[T any](ctx context.Context, c *Client, r *listRun, number int) (*api.Page[T], error) {
	call := r.Call
	call.wrong = r.wrong
	call.encodedQuery = r.query + strconv.Itoa(number)
	s, err := c.send(ctx, call)
	if err != nil {
		return nil, err
	}
	defer s.release()
	page, err := decodePage[T](s)
	if err != nil {
		return nil, err
	}
	page.Response = s.response()
	current, next := page.Meta.CurrentPage, page.Meta.NextPage
	switch {
	case current > 0 && current < number && (current == page.Meta.TotalPages || len(page.Items) == 0 && isEmptyList(page.Meta)):
		page.Items, page.Omitted, page.Meta.NextPage = nil, 0, 0
	case current != 0 && current != number:
		return nil, r.failed(&decodeError{"requested page " + strconv.Itoa(number) + ", got page " + strconv.Itoa(current)})
	case current == 0 && next > 0 && next <= number:
		return nil, r.failed(&decodeError{"requested page " + strconv.Itoa(number) + ", got a page followed by page " + strconv.Itoa(next)})
	case len(page.Items) == 0 && number >= page.Meta.TotalPages:
		page.Meta.NextPage = 0
	}
	return page, nil
}

// sequential yields the pages of a list one after the other. It reports whether it reached the
// end.
func sequential[T any](ctx context.Context, c *Client, r *listRun, yield func(*api.Page[T], error) bool) bool {
	for number := r.first; number != 0; {
		page, err := fetchPage[T](ctx, c, r, number)
		if err != nil {
			yield(nil, err)
			return false
		}
		number = takePage(r, number, page)
		if !yield(page, nil) {
			return false
		}
	}
	return true
}

// noteDrift reports a change of the total between two pages.
func (r *listRun) noteDrift(meta api.Meta) {
	before := r.count
	r.count = meta.TotalCount
	if report := r.OnDrift; report != nil && before >= 0 && before != r.count {
		report(api.Drift{Page: meta.CurrentPage, Before: before, After: r.count})
	}
}

// checkComplete returns an error if the list ended before its total of records. The total of
// the last page counts, because records may be deleted during the run.
func (r *listRun) checkComplete() error {
	before, size := r.count, cmp.Or(r.PageSize, pageSize)
	if skipped := r.first - 1; skipped <= r.count/size { // so the product does not overflow
		before = skipped * size
	}
	if read := r.read + r.omitted; (r.Limit == 0 || r.read < r.Limit) && read < r.count-before {
		return r.failed(&api.IncompleteListError{Read: before + read, Total: r.count})
	}
	return nil
}

// failed returns an error of the whole list, without a single response.
func (r *listRun) failed(cause error) *api.Error {
	op := r.Operation
	return apikit.NewError(api.Error{Operation: op.Name, Method: op.Method, Route: op.Route}, cause, nil, nil)
}

// nextPage returns the number of the page after number, or 0. The result is always greater
// than number, whatever meta contains. An empty page does not end the list, because its items
// may have been deleted.
func nextPage(meta api.Meta, number int) int {
	switch next, total := meta.NextPage, meta.TotalPages; {
	case next > number:
		return next
	case next == 0 && number < total:
		return number + 1
	}
	return 0
}

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
	number   int
	response chan fetchedPage[T]
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
	response := make(chan fetchedPage[T], 1) // buffered, so an unused page blocks no goroutine
	f.pending, f.last = append(f.pending, pageFetch[T]{number, response}), number
	f.running.Go(func() {
		got := fetchedPage[T]{unwound: true}
		defer func() {
			if got.unwound {
				got.panicked = recover()
			}
			response <- got
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
	got := <-first.response
	switch {
	case got.panicked != nil:
		panic(got.panicked)
	case got.unwound:
		runtime.Goexit()
	}
	return first.number, got.page, got.err
}

// RawPages is [Raw] for a list. It returns the unmodified body of each page, and fails like the
// lists of [NewList]. The query may contain the number of the first page and the page size.
func RawPages(ctx context.Context, c *Client, method, path string, query url.Values, body any, options []api.RequestOption) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		call, err := newRawCall(method, path, maps.Clone(query), body, options)
		if err == nil && method != http.MethodGet {
			err = call.invalid("Method", "must be GET")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		var page []byte
		call.page = &page
		settings := api.ListSettings{StartAt: call.takeNumber("page[number]"), PageSize: call.takeNumber("page[size]")}
		readPages(ctx, c, newListRun(newListCall(call), settings), func(read *api.Page[json.RawMessage], err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			// No items: the platform repeated an earlier page instead of an empty one.
			return read.Items == nil || yield(page, nil)
		})
	}
}

// takeNumber removes a parameter from the query and returns its number, or 0 if it is missing.
func (c *Call) takeNumber(name string) int {
	query := c.Query.(url.Values)
	text := query.Get(name)
	query.Del(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		c.wrong = append(c.wrong, c.invalid(name, "must be a positive number"))
	}
	return max(n, 0)
}

// setRawPage stores the body of a page, and sets its response key to the name of the only array
// in the body.
func (s *callState) setRawPage() {
	*s.call.page = bytes.Clone(s.last.body.Bytes())
	op := *s.call.Operation
	op.Key, op.List = "list", true // of the error if there is no array
	var members map[string]json.RawMessage
	_ = json.Unmarshal(*s.call.page, &members) // decodePage reports the error
	arrays := 0
	for name, value := range members {
		if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '[' {
			op.Key = name
			arrays++
		}
	}
	if arrays > 1 {
		op.Key = "single list"
	}
	s.call.Operation = &op
}
