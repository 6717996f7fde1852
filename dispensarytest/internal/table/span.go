package table

import (
	"slices"
	"strings"
)

// List is a list of which a page is read.
type List[T any] struct {
	N    int
	Part func(from, to int) []*T // its rows between two places
}

// Rows is a list that is there as a whole.
func Rows[T any](rows []*T) List[T] {
	return List[T]{len(rows), func(from, to int) []*T { return rows[from:to] }}
}

// Everything lists a table.
func (t *Table[T]) Everything() List[T] {
	return List[T]{t.Len(), func(from, to int) []*T {
		rows := make([]*T, 0, to-from)
		for place := from; place < to; place++ {
			rows = append(rows, t.At(place))
		}
		return rows
	}}
}

// All returns every row of the list.
func (l List[T]) All() []*T { return l.Part(0, l.N) }

// Keep narrows a list to the n rows that a condition holds for. It walks to the end
// of the page that is read.
func (l List[T]) Keep(n int, holds func(*T) bool) List[T] {
	return List[T]{n, func(from, to int) []*T {
		kept := make([]*T, 0, to-from)
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
func (l List[T]) After(first List[T]) List[T] {
	return List[T]{first.N + l.N, func(from, to int) []*T {
		var rows []*T
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
type Span[T any] struct {
	rows     *column[*T]
	order    *Index[T]
	from, to int  // places in the order
	whole    bool // it lies in one group
}

// Span returns the rows whose keys in an order are these, or begin with these.
func (t *Table[T]) Span(order int, keys ...string) Span[T] {
	return t.SpanWithin(order, func(*T) int { return 0 }, keys...)
}

// SpanWithin narrows a span by what its order sorts a group by: within is below 0
// for rows that come before the wanted ones, and above 0 for those that come after.
func (t *Table[T]) SpanWithin(order int, within func(*T) int, keys ...string) Span[T] {
	o := &t.Indexes[order]
	place := func(row *T) int {
		for i, key := range keys {
			if c := strings.Compare(o.by[i](row), key); c != 0 {
				return c
			}
		}
		return within(row)
	}
	return Span[T]{
		rows: &t.Rows, order: o, whole: len(keys) == len(o.by),
		from: o.count(&t.Rows, func(row *T) bool { return place(row) < 0 }),
		to:   o.count(&t.Rows, func(row *T) bool { return place(row) <= 0 }),
	}
}

func (s Span[T]) Len() int { return s.to - s.from }

func (s Span[T]) read(seats []int32) []*T {
	rows := make([]*T, len(seats))
	for i, n := range seats {
		rows[i] = s.rows.At(int(n))
	}
	return rows
}

// Ascending lists the rows as the order has them.
func (s Span[T]) Ascending() List[T] {
	return List[T]{s.Len(), func(from, to int) []*T {
		return s.read(s.order.seats(make([]int32, 0, to-from), s.from+from, s.from+to))
	}}
}

// Created lists the rows in the order of creation. It sorts them where the order has
// them otherwise.
func (s Span[T]) Created() List[T] {
	if s.whole && !s.order.shuffled {
		return s.Ascending()
	}
	seats := s.order.seats(make([]int32, 0, s.Len()), s.from, s.to)
	slices.Sort(seats)
	return List[T]{s.Len(), func(from, to int) []*T { return s.read(seats[from:to]) }}
}

// Sorted lists the rows by their order, one way or the other.
func (s Span[T]) Sorted(descending bool) List[T] {
	if !descending {
		return s.Ascending()
	}
	return List[T]{s.Len(), func(from, to int) (rows []*T) {
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
func (s Span[T]) descend(at, to int) []*T {
	last := s.to - at // the place after the row's
	low := max(s.from, last-2)
	beside := s.read(s.order.seats(nil, low, min(s.to, last+1)))
	row := beside[last-1-low]
	if !slices.ContainsFunc(beside, func(other *T) bool { return other != row && s.order.compare(other, row) == 0 }) {
		return []*T{row}
	}
	begin := max(s.from, s.order.count(s.rows, func(other *T) bool { return s.order.compare(other, row) < 0 }))
	end := min(s.to, s.order.count(s.rows, func(other *T) bool { return s.order.compare(other, row) <= 0 }))
	skipped := end - last
	return s.read(s.order.seats(nil, begin+skipped, begin+skipped+min(to-at, end-begin-skipped)))
}

// Keep keeps the rows that a condition holds for.
func Keep[T any](rows []*T, keep func(*T) bool) []*T {
	return slices.DeleteFunc(rows, func(row *T) bool { return !keep(row) })
}

// List is the rows of a table that are in a set, in the order of creation.
func (t *Table[T]) List(set *RowSet) List[T] {
	return List[T]{set.N, func(from, to int) []*T {
		rows := make([]*T, 0, to-from)
		for _, n := range set.Numbers(from, to) {
			rows = append(rows, t.Rows.At(n))
		}
		return rows
	}}
}
