package api

import (
	"context"
	"iter"
)

// List is a list of the platform. Making one sends nothing. All, Pages and Page send
// requests. The other methods return a changed copy:
//
//	for order, err := range client.Clinic.Orders.List(clinic.OrderListOptions{}).Limit(500).Prefetch(4).All(ctx) { … }
//
// A list without settings is read from its first page to its last, 100 items a request. It
// ends with an [IncompleteListError] if the platform ends it before its count of records.
//
// A List never changes, is safe for concurrent use, and reads the platform again each time.
// The zero value is an empty list. A negative setting is an [*ArgumentError] of the first
// call to All, Pages or Page.
// API section: "Pagination".
type List[T any] struct {
	settings ListSettings
	pages    func(context.Context, ListSettings) iter.Seq2[*Page[T], error]
}

// ListSettings are the settings of a [List], for the function that reads it. Zero means the
// default of each.
type ListSettings struct {
	// StartAt is the number of the first page to read, from 1.
	StartAt int

	// PageSize is the number of items to request at once.
	PageSize int

	// Limit is the largest number of items to return.
	Limit int

	// Prefetch is the number of pages to fetch at the same time.
	Prefetch int

	// OnDrift receives changes of the number of records.
	OnDrift func(Drift)
}

// NewList returns a list with a function for its pages. Services make their lists with it,
// and tests of your code can make a list without a platform:
//
//	list := api.NewList(func(context.Context, api.ListSettings) iter.Seq2[*api.Page[clinic.Order], error] {
//		return func(yield func(*api.Page[clinic.Order], error) bool) { yield(&api.Page[clinic.Order]{Items: orders}, nil) }
//	})
//
// pages is called for each reading, maybe by several goroutines at once. It has to apply the
// settings it supports, and to end its sequence after an error.
func NewList[T any](pages func(ctx context.Context, settings ListSettings) iter.Seq2[*Page[T], error]) *List[T] {
	return &List[T]{pages: pages}
}

// StartAt returns the list from a page on, counted from 1. To resume an interrupted run, give
// the page it stopped at, with the same PageSize.
func (l *List[T]) StartAt(page int) *List[T] {
	changed := *l
	changed.settings.StartAt = page
	return &changed
}

// PageSize returns the list with n items a request; 0 means 100. Assumption: the platform
// returns at most 100.
func (l *List[T]) PageSize(n int) *List[T] {
	changed := *l
	changed.settings.PageSize = n
	return &changed
}

// Limit returns the list up to n items; 0 means no limit. Requests from the first
// page ask for at most n items.
func (l *List[T]) Limit(n int) *List[T] {
	changed := *l
	changed.settings.Limit = n
	return &changed
}

// Prefetch returns the list with up to n pages fetched at the same time, ahead of the
// consumer and in order; 0 and 1 fetch one after the other. It keeps at most n pages beside
// the consumer's, and fetches none behind the limit. Page ignores it.
func (l *List[T]) Prefetch(n int) *List[T] {
	changed := *l
	changed.settings.Prefetch = n
	return &changed
}

// OnDrift returns the list with a function for changes of its number of records during a
// run: items may be missing or come twice. The goroutine that reads the list calls report,
// between pages; nil reports nothing.
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

// Page returns the first page that Pages would.
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
