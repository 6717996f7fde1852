package table

import (
	"slices"
	"strings"
)

// List is a list of which a page is read.
type List[R any] struct {
	N    int
	Part func(from, to int) []R // its rows between two places
}

// Rows is a list that is there as a whole.
func Rows[R any](rows []R) List[R] {
	return List[R]{len(rows), func(from, to int) []R { return rows[from:to] }}
}

// Everything lists a table.
func (t *Table[R]) Everything() List[R] {
	return List[R]{t.Len(), func(from, to int) []R {
		rows := make([]R, 0, to-from)
		for place := from; place < to; place++ {
			rows = append(rows, t.At(place))
		}
		return rows
	}}
}

// All returns every row of the list.
func (l List[R]) All() []R { return l.Part(0, l.N) }

// Keep narrows a list to the n rows that a condition holds for. It walks to the end
// of the page that is read.
func (l List[R]) Keep(n int, holds func(R) bool) List[R] {
	return List[R]{n, func(from, to int) []R {
		kept := make([]R, 0, to-from)
		step := max(to-from, 16)
		for at, passed := 0, 0; at < l.N && len(kept) < to-from; at += step {
			for _, row := range l.Part(at, min(at+step, l.N)) {
				if !holds(row) {
					continue
				}
				if passed++; passed > from && len(kept) < to-from {
					kept = append(kept, row)
				}
			}
		}
		return kept
	}}
}

// After lists the rows of one list and then those of another.
func (l List[R]) After(first List[R]) List[R] {
	return List[R]{first.N + l.N, func(from, to int) []R {
		var rows []R
		if from < first.N {
			rows = slices.Clip(first.Part(from, min(to, first.N)))
		}
		if to > first.N {
			rows = append(rows, l.Part(max(from-first.N, 0), to-first.N)...)
		}
		return rows
	}}
}

// Span is the part of an order whose rows belong together.
type Span[R any] struct {
	rows     *column[R]
	order    *Index[R]
	from, to int  // places in the order
	whole    bool // it lies in one group
}

// Span returns the rows whose keys in an order are these, or begin with these.
func (t *Table[R]) Span(order int, keys ...string) Span[R] {
	return t.SpanWithin(order, func(R) int { return 0 }, keys...)
}

// SpanWithin narrows a span by what its order sorts a group by: within is below 0
// for rows that come before the wanted ones, and above 0 for those that come after.
func (t *Table[R]) SpanWithin(order int, within func(R) int, keys ...string) Span[R] {
	o := &t.Indexes[order]
	place := func(row R) int {
		for i, key := range keys {
			if c := strings.Compare(o.by[i](row), key); c != 0 {
				return c
			}
		}
		return within(row)
	}
	return Span[R]{
		rows: &t.Rows, order: o, whole: len(keys) == len(o.by),
		from: o.count(&t.Rows, func(row R) bool { return place(row) < 0 }),
		to:   o.count(&t.Rows, func(row R) bool { return place(row) <= 0 }),
	}
}

func (s Span[R]) Len() int { return s.to - s.from }

func (s Span[R]) read(seats []int32) []R {
	rows := make([]R, len(seats))
	for i, n := range seats {
		rows[i] = s.rows.At(int(n))
	}
	return rows
}

// Ascending lists the rows as the order has them.
func (s Span[R]) Ascending() List[R] {
	return List[R]{s.Len(), func(from, to int) []R {
		return s.read(s.order.seats(make([]int32, 0, to-from), s.from+from, s.from+to))
	}}
}

// Created lists the rows in the order of creation. It sorts them where the order has
// them otherwise.
func (s Span[R]) Created() List[R] {
	if s.whole && !s.order.shuffled {
		return s.Ascending()
	}
	seats := s.order.seats(make([]int32, 0, s.Len()), s.from, s.to)
	slices.Sort(seats)
	return List[R]{s.Len(), func(from, to int) []R { return s.read(seats[from:to]) }}
}

// Sorted lists the rows by their order, one way or the other.
func (s Span[R]) Sorted(descending bool) List[R] {
	if !descending {
		return s.Ascending()
	}
	return List[R]{s.Len(), func(from, to int) (rows []R) {
		for at := from; at < to; {
			equal := s.descend(at, to)
			rows = append(rows, equal...)
			at += len(equal)
		}
		return rows
	}}
}

// descend returns rows that are equal, from a place of the turned list on. Equal rows
// keep the order of creation.
func (s Span[R]) descend(at, to int) []R {
	last := s.to - at // the place after the row's
	low := max(s.from, last-2)
	beside := s.read(s.order.seats(nil, low, min(s.to, last+1)))
	row := beside[last-1-low]
	if !slices.ContainsFunc(beside, func(other R) bool { return !same(other, row) && s.order.compare(other, row) == 0 }) {
		return []R{row}
	}
	begin := max(s.from, s.order.count(s.rows, func(other R) bool { return s.order.compare(other, row) < 0 }))
	end := min(s.to, s.order.count(s.rows, func(other R) bool { return s.order.compare(other, row) <= 0 }))
	skipped := end - last
	return s.read(s.order.seats(nil, begin+skipped, begin+skipped+min(to-at, end-begin-skipped)))
}

// Keep keeps the rows that a condition holds for.
func Keep[R any](rows []R, keep func(R) bool) []R {
	return slices.DeleteFunc(rows, func(row R) bool { return !keep(row) })
}

// List is the rows of a table that are in a set, in the order of creation.
func (t *Table[R]) List(set *RowSet) List[R] {
	return List[R]{set.N, func(from, to int) []R {
		rows := make([]R, 0, to-from)
		for _, n := range set.Numbers(from, to) {
			rows = append(rows, t.Rows.At(n))
		}
		return rows
	}}
}
