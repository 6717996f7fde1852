package api

import (
	"fmt"
	"log/slog"
)

// Meta is what every list answers about its pages.
// API section: "Pagination".
type Meta struct {
	CurrentPage int `json:"current_page"`

	// NextPage and PrevPage are zero where there is none.
	NextPage int `json:"next_page"`
	PrevPage int `json:"prev_page"`

	TotalPages int `json:"total_pages"`
	TotalCount int `json:"total_count"`
}

// Page is one page of a list.
type Page[T any] struct {
	Items []T
	Meta  Meta

	// Omitted is the number of elements of the response that Items leaves out, because
	// they are not objects.
	Omitted int
}

// LogValue logs the page's number and how many items it has: a JSON log would
// encode the items as whole as any other encoding does.
func (p Page[T]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("page", p.Meta.CurrentPage), slog.Int("items", len(p.Items)), slog.Int("total_count", p.Meta.TotalCount),
	)
}

// Paging says which part of a list is read, and in what portions. The zero
// value reads everything from the first page, 100 items a request. A run ends with an
// [IncompleteListError] if the list ends before its count of records.
// API section: "Pagination".
type Paging struct {
	// Page is the number of the first page to read, from 1; 0 means 1. To
	// resume an interrupted run, give the page it stopped at.
	Page int

	// PageSize is how many items one request asks for; 0 means 100, which the
	// platform is assumed to accept at most.
	PageSize int

	// MaxItems ends a run over the list after that many items; 0 means no end. A run from
	// the first page requests at most MaxItems in a page. A single List call ignores it.
	MaxItems int

	// Prefetch is how many pages are fetched at the same time, ahead of the
	// consumer, who still gets them in order; 0 and 1 mean one after the other. That many
	// pages are held at most, beside the one being consumed. Pages behind MaxItems are not
	// fetched ahead. A single List call ignores it.
	Prefetch int

	// OnDrift is called when the number of records has changed while the list is
	// read: items may be missing or come twice. It is called between pages, by the
	// goroutine that reads the list; nil means that drift is not reported.
	OnDrift func(Drift)
}

// Drift is a change of a list while it was read.
type Drift struct {
	// Page is the first page with the new number.
	Page int

	// Before and After are the numbers of records.
	Before, After int
}

// IncompleteListError reports a list that ended before its count of records, for example
// because a search engine behind the list serves the first records only. The All and
// Pages methods yield it last, as the cause of an [Error]. A list that became shorter
// while it was read is complete.
// API section: "Pagination" (total_count).
type IncompleteListError struct {
	// Read is the number of records up to the end, those of the pages before Paging.Page
	// included.
	Read int

	// Total is the number of records on the last page's count.
	Total int
}

// Error names both numbers.
func (e *IncompleteListError) Error() string {
	return fmt.Sprintf("incomplete list: it ended after %d of %d records", e.Read, e.Total)
}

// Validate reports the negative numbers, naming each.
func (p Paging) Validate() error {
	var wrong ArgumentErrors
	for _, f := range []struct {
		name  string
		value int
	}{{"page[number]", p.Page}, {"page[size]", p.PageSize}, {"Paging.MaxItems", p.MaxItems}, {"Paging.Prefetch", p.Prefetch}} {
		if f.value < 0 {
			wrong = append(wrong, &ArgumentError{Field: f.name, Reason: "must not be negative"})
		}
	}
	return wrong.Err()
}

// SortOrder is the direction of a sorted list.
// API section: "Sorting convention".
type SortOrder string

// The sort orders; the platform sorts ascending where none is given.
const (
	SortOrderAscending  SortOrder = "ASC"
	SortOrderDescending SortOrder = "DESC"
)
