package httpapi

import (
	"cmp"
	"slices"
)

// pageMeta is the meta object of a list. API section: "Pagination".
type pageMeta struct {
	CurrentPage int  `json:"current_page"`
	NextPage    *int `json:"next_page"`
	PrevPage    *int `json:"prev_page"`
	TotalPages  int  `json:"total_pages"`
	TotalCount  int  `json:"total_count"`
}

// pageRequest is which page a list was asked for.
type pageRequest struct{ number, size int }

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
