package api

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
)

// List is a list of the platform's records. Creating a List sends nothing. All, Pages and Page
// send requests. The other methods return a changed copy:
//
//	for order, err := range client.Clinic.Orders.List(clinic.OrderListOptions{}).Limit(500).Prefetch(4).All(ctx) { … }
//
// By default, a list requests all pages from the first to the last, 100 items each. It fails
// with an [IncompleteListError] if it ends before the record count that the platform reports.
//
// A List never changes, is safe for concurrent use, and sends new requests for each reading.
// The zero value is an empty list. A negative setting is an [*ArgumentError] of the first call
// to All, Pages or Page.
// API section: "Pagination".
type List[T any] struct {
	settings ListSettings
	pages    func(context.Context, ListSettings) iter.Seq2[*Page[T], error]
}

// ListSettings are the settings of a [List], for the function that reads its pages. Zero means
// the default of each setting.
type ListSettings struct {
	// StartAt is the number of the first page to read. The first page of the list is 1.
	StartAt int

	// PageSize is the number of items per request.
	PageSize int

	// Limit is the largest number of items to return.
	Limit int

	// Prefetch is the number of pages to fetch at the same time.
	Prefetch int

	// OnDrift receives changes in the number of records.
	OnDrift func(Drift)
}

// NewList returns a list that gets its pages from a function. The services use it, and your
// tests can create a list without a platform:
//
//	list := api.NewList(func(context.Context, api.ListSettings) iter.Seq2[*api.Page[clinic.Order], error] {
//		return func(yield func(*api.Page[clinic.Order], error) bool) { yield(&api.Page[clinic.Order]{Items: orders}, nil) }
//	})
//
// pages is called for each reading, possibly by several goroutines at once. It must apply the
// settings that it supports, and end its sequence after an error.
func NewList[T any](pages func(ctx context.Context, settings ListSettings) iter.Seq2[*Page[T], error]) *List[T] {
	return &List[T]{pages: pages}
}

// StartAt returns the list from the given page on, counted from 1. To resume an interrupted
// run, pass the page at which it stopped, with the same PageSize.
func (l *List[T]) StartAt(page int) *List[T] {
	changed := *l
	changed.settings.StartAt = page
	return &changed
}

// PageSize returns the list with n items per request. 0 means 100. Assumption: the platform
// returns at most 100.
func (l *List[T]) PageSize(n int) *List[T] {
	changed := *l
	changed.settings.PageSize = n
	return &changed
}

// Limit returns the list up to n items. 0 means no limit. Requests from the first page ask for
// at most n items.
func (l *List[T]) Limit(n int) *List[T] {
	changed := *l
	changed.settings.Limit = n
	return &changed
}

// Prefetch returns the list with up to n pages fetched at the same time, ahead of the consumer
// and in order. 0 and 1 fetch one page after the other. It keeps at most n pages besides the
// consumer's, and fetches none beyond the limit. Page ignores it.
func (l *List[T]) Prefetch(n int) *List[T] {
	changed := *l
	changed.settings.Prefetch = n
	return &changed
}

// OnDrift returns the list with a function that receives changes in its number of records
// during a run: items may be missing or repeated. The goroutine that reads the list calls
// report between pages. Nil disables the report.
func (l *List[T]) OnDrift(report func(Drift)) *List[T] {
	changed := *l
	changed.settings.OnDrift = report
	return &changed
}

// All returns the items one by one. An error ends the sequence.
func (l *List[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range l.Pages(ctx) {
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

// Pages returns the items page by page. An error ends the sequence.
func (l *List[T]) Pages(ctx context.Context) iter.Seq2[*Page[T], error] {
	if l.pages == nil {
		return func(func(*Page[T], error) bool) {}
	}
	return l.pages(ctx, l.settings)
}

// Page returns the first page of Pages.
func (l *List[T]) Page(ctx context.Context) (*Page[T], error) {
	if l.pages != nil {
		settings := l.settings
		settings.Prefetch = min(settings.Prefetch, 1)
		for page, err := range l.pages(ctx, settings) {
			return page, err
		}
	}
	return &Page[T]{}, nil
}

// Meta is the pagination data of a list response.
// API section: "Pagination".
type Meta struct {
	CurrentPage int `json:"current_page"`

	// NextPage and PrevPage are zero if there is no such page.
	NextPage int `json:"next_page"`
	PrevPage int `json:"prev_page"`

	TotalPages int `json:"total_pages"`
	TotalCount int `json:"total_count"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T
	Meta  Meta

	// Omitted is the number of elements of the response that Items leaves out because they are
	// not objects.
	Omitted int

	// Response contains the status, the headers and the request ID of the page. It is zero for
	// a page merged from several.
	Response Response `json:"-"`
}

// LogValue returns the page number, the number of items and the total count. Without this
// method, a JSON log would contain the items with all their fields.
func (p Page[T]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("page", p.Meta.CurrentPage), slog.Int("items", len(p.Items)), slog.Int("total_count", p.Meta.TotalCount),
	)
}

// Drift is a change in the number of records of a list during a run.
type Drift struct {
	// Page is the first page that reports the new number.
	Page int

	// Before and After are the old and the new number of records.
	Before, After int
}

// IncompleteListError reports a list that ended before its count of records, for example
// because a search engine behind the list returns only the first records. All and Pages yield
// it last, as the cause of an [Error]. A list that shrinks during the run is complete.
// API section: "Pagination" (total_count).
type IncompleteListError struct {
	// Read is the number of records up to the end of the list, including the pages before the
	// first one that was read.
	Read int

	// Total is the number of records reported by the last page.
	Total int
}

// Error names both numbers.
func (e *IncompleteListError) Error() string {
	if e == nil {
		return nilText
	}
	return fmt.Sprintf("incomplete list: it ended after %d of %d records", e.Read, e.Total)
}

// SortOrder is the direction of a sorted list.
// API section: "Sorting convention".
type SortOrder string

// The sort orders. The platform's default is ascending.
const (
	SortOrderAscending  SortOrder = "ASC"
	SortOrderDescending SortOrder = "DESC"
)
