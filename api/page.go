package api

import (
	"fmt"
	"log/slog"
)

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
