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

	// Response has the status, the headers and the request id of the page. It is zero for a
	// page that merges several.
	Response Response `json:"-"`
}

// LogValue logs the page's number and how many items it has: a JSON log would
// encode the items as whole as any other encoding does.
func (p Page[T]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("page", p.Meta.CurrentPage), slog.Int("items", len(p.Items)), slog.Int("total_count", p.Meta.TotalCount),
	)
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
	// Read is the number of records up to the end, those of the pages before the first one
	// included.
	Read int

	// Total is the number of records on the last page's count.
	Total int
}

// Error names both numbers.
func (e *IncompleteListError) Error() string {
	return fmt.Sprintf("incomplete list: it ended after %d of %d records", e.Read, e.Total)
}

// SortOrder is the direction of a sorted list.
// API section: "Sorting convention".
type SortOrder string

// The sort orders; the platform sorts ascending where none is given.
const (
	SortOrderAscending  SortOrder = "ASC"
	SortOrderDescending SortOrder = "DESC"
)
