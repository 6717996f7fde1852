package httpapi

import (
	"cmp"
	"slices"

	"github.com/dispensary-go/dispensary/dispensarytest/internal/table"
)

// pageMeta is the meta object of a list. API section: "Pagination".
type pageMeta struct {
	CurrentPage int  `json:"current_page"`
	NextPage    *int `json:"next_page"`
	PrevPage    *int `json:"prev_page"`
	TotalPages  int  `json:"total_pages"`
	TotalCount  int  `json:"total_count"`
}

// cut returns which rows a page holds and what its meta says. That a page beyond
// the last is empty and has no neighbours is an assumption.
func (p pageRequest) cut(total int) (from, to int, meta *pageMeta) {
	pages := (total + p.size - 1) / p.size
	meta = &pageMeta{CurrentPage: p.number, TotalPages: pages, TotalCount: total}
	if p.number > pages {
		return 0, 0, meta
	}
	if p.number > 1 {
		meta.PrevPage = new(p.number - 1)
	}
	if p.number < pages {
		meta.NextPage = new(p.number + 1)
	}
	from = (p.number - 1) * p.size
	return from, min(from+p.size, total), meta
}

// listOf answers with a page of a list.
func listOf[T, V any](c *Call, rows table.List[T], view func(*T) V) reply {
	from, to, meta := c.page.cut(rows.N)
	if c.newestFirst() {
		from, to = rows.N-to, rows.N-from
	}
	page := rows.Part(from, to)
	views := make([]V, 0, len(page))
	for _, row := range page {
		views = append(views, view(row))
	}
	if c.newestFirst() {
		slices.Reverse(views)
	}
	return reply{value: views, meta: meta}
}

// newestFirst reports that this list is to be reversed: the request has no sort order,
// and the API defines none.
func (c *Call) newestFirst() bool {
	return c.Reads.NewestFirst && c.op.ID != "products.similar" && c.params.get("sort_by") == "" && c.params.get("order_by") == ""
}

// sortRows sorts by a key and keeps the order of creation among equals, in
// either direction.
func sortRows[T any, K cmp.Ordered](rows []*T, descending bool, key func(*T) K) {
	slices.SortStableFunc(rows, func(a, b *T) int {
		if descending {
			return cmp.Compare(key(b), key(a))
		}
		return cmp.Compare(key(a), key(b))
	})
}
