package transport

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/internal/apierror"
	"github.com/dispensary-go/dispensary/internal/calloption"
)

// pageSize is what is asked for where a caller does not say. The platform is
// assumed to give no more than this.
const pageSize = 100

const (
	sizeParam   = "page%5Bsize%5D="
	numberParam = "&page%5Bnumber%5D="
)

// listCall is the call of a list, with its query encoded once for all runs.
type listCall struct {
	Call
	query string // ends before the page's size
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

// NewList returns the list of a call. Pages contain the items under the key of the
// operation. The last error of a run may be an [api.IncompleteListError].
//
// It rejects [api.CaptureResponse], because several goroutines may read pages at once.
func NewList[T any](c *Client, call Call) *api.List[T] {
	l := newListCall(call)
	if len(call.Options) > 0 {
		var settings calloption.Settings
		if l.apply(&settings); len(settings.Captures) > 0 {
			l.wrong = append(l.wrong, l.invalid("CaptureResponse", "is not for lists: read Page.Response"))
		}
	}
	return api.NewList(func(ctx context.Context, s api.ListSettings) iter.Seq2[*api.Page[T], error] {
		return func(yield func(*api.Page[T], error) bool) {
			readPages(ctx, c, newListRun(l, boundPageSize(s)), yield)
		}
	})
}

// listRun is one reading of a list, with the counts of the pages so far.
type listRun struct {
	*listCall
	api.ListSettings
	query string // ends before the page's number
	wrong api.ArgumentErrors
	first int
	count int // of records; -1 before the first page
	read  int // items for the caller

	omitted int // elements left out by pages
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

// boundPageSize returns settings with at most Limit items in a page. A later first page is
// counted in pages of the full size.
func boundPageSize(s api.ListSettings) api.ListSettings {
	if s.Limit > 0 && s.StartAt <= 1 && s.PageSize >= 0 {
		s.PageSize = min(cmp.Or(s.PageSize, pageSize), s.Limit)
	}
	return s
}

// readPages yields the pages of a run. An error ends it.
func readPages[T any](ctx context.Context, c *Client, r *listRun, yield func(*api.Page[T], error) bool) {
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

// takePage prepares a page for the caller: it reports drift and cuts the items behind
// Limit. It returns the number of the next page, 0 if there is none.
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

// fetchPage gets one page. A platform that ignores the page number would serve the
// first page without end; the page's number shows that, and where it has none the
// number of the page that follows. One that names a next page behind the last one, too,
// would serve empty pages without end: nothing follows one that is behind all there are.
// If the platform repeats the last page for a number behind it, fetchPage returns an empty
// page.
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
	case current > 0 && current < number && current == page.Meta.TotalPages:
		page.Items, page.Omitted, page.Meta.NextPage = nil, 0, 0
	case current != 0 && current != number:
		return nil, r.failed(&decodeError{"asked for page " + strconv.Itoa(number) + ", got page " + strconv.Itoa(current)})
	case current == 0 && next > 0 && next <= number:
		return nil, r.failed(&decodeError{"asked for page " + strconv.Itoa(number) + ", got a page that is followed by page " + strconv.Itoa(next)})
	case len(page.Items) == 0 && number >= page.Meta.TotalPages:
		page.Meta.NextPage = 0
	}
	return page, nil
}

// sequential yields the pages of a list one after the other. It reports whether it reached
// the end.
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

// noteDrift compares what each page says of the whole list.
func (r *listRun) noteDrift(meta api.Meta) {
	before := r.count
	r.count = meta.TotalCount
	if report := r.OnDrift; report != nil && before >= 0 && before != r.count {
		report(api.Drift{Page: meta.CurrentPage, Before: before, After: r.count})
	}
}

// checkComplete returns an error if the list ended before its count of records. The last
// page's count matters, as records may be deleted meanwhile.
func (r *listRun) checkComplete() error {
	before := (r.first-1)*cmp.Or(r.PageSize, pageSize) + r.omitted
	if r.Limit > 0 && r.read == r.Limit || before+r.read >= r.count {
		return nil
	}
	return r.failed(&api.IncompleteListError{Read: before + r.read, Total: r.count})
}

// failed is an error of the list as a whole, and of no single answer.
func (r *listRun) failed(cause error) *api.Error {
	op := r.Operation
	return apierror.New(api.Error{Operation: op.Name, Method: op.Method, Route: op.Route}, cause, nil, nil)
}

// nextPage returns the number of the page that follows the one with the given
// number, or 0: it is greater, whatever meta says. Whether a page has items does not
// matter: one may be empty because its items are gone by now.
func nextPage(meta api.Meta, number int) int {
	switch next, total := meta.NextPage, meta.TotalPages; {
	case next > number:
		return next
	case next == 0 && number < total:
		return number + 1
	}
	return 0
}
