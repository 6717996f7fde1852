package dispensarytest

import (
	"slices"
	"strings"
)

// rowList is a list of which a page is read.
type rowList[T any] struct {
	n    int
	part func(from, to int) []*T // its rows between two places
}

// rowsOf is a list that is there as a whole.
func rowsOf[T any](rows []*T) rowList[T] {
	return rowList[T]{len(rows), func(from, to int) []*T { return rows[from:to] }}
}

// everything lists a table.
func (t *table[T]) everything() rowList[T] {
	return rowList[T]{t.len(), func(from, to int) []*T {
		rows := make([]*T, 0, to-from)
		for place := from; place < to; place++ {
			rows = append(rows, t.at(place))
		}
		return rows
	}}
}

// all returns every row of the list.
func (l rowList[T]) all() []*T { return l.part(0, l.n) }

// keep narrows a list to the n rows that a condition holds for. It walks to the end
// of the page that is read.
func (l rowList[T]) keep(n int, holds func(*T) bool) rowList[T] {
	return rowList[T]{n, func(from, to int) []*T {
		kept := make([]*T, 0, to-from)
		step := max(to-from, 16)
		for at, passed := 0, 0; at < l.n && len(kept) < to-from; at += step {
			for _, row := range l.part(at, min(at+step, l.n)) {
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

// after lists the rows of one list and then those of another.
func (l rowList[T]) after(first rowList[T]) rowList[T] {
	return rowList[T]{first.n + l.n, func(from, to int) []*T {
		var rows []*T
		if from < first.n {
			rows = slices.Clip(first.part(from, min(to, first.n)))
		}
		if to > first.n {
			rows = append(rows, l.part(max(from-first.n, 0), to-first.n)...)
		}
		return rows
	}}
}

// span is the part of an order whose rows belong together.
type span[T any] struct {
	rows     *column[*T]
	order    *order[T]
	from, to int  // places in the order
	whole    bool // it lies in one group
}

// span returns the rows whose keys in an order are these, or begin with these.
func (t *table[T]) span(order int, keys ...string) span[T] {
	return t.spanWithin(order, func(*T) int { return 0 }, keys...)
}

// spanWithin narrows a span by what its order sorts a group by: within is below 0
// for rows that come before the wanted ones, and above 0 for those that come after.
func (t *table[T]) spanWithin(order int, within func(*T) int, keys ...string) span[T] {
	o := &t.orders[order]
	place := func(row *T) int {
		for i, key := range keys {
			if c := strings.Compare(o.by[i](row), key); c != 0 {
				return c
			}
		}
		return within(row)
	}
	return span[T]{
		rows: &t.rows, order: o, whole: len(keys) == len(o.by),
		from: o.count(&t.rows, func(row *T) bool { return place(row) < 0 }),
		to:   o.count(&t.rows, func(row *T) bool { return place(row) <= 0 }),
	}
}

func (s span[T]) len() int { return s.to - s.from }

func (s span[T]) read(seats []int32) []*T {
	rows := make([]*T, len(seats))
	for i, n := range seats {
		rows[i] = s.rows.at(int(n))
	}
	return rows
}

// ascending lists the rows as the order has them.
func (s span[T]) ascending() rowList[T] {
	return rowList[T]{s.len(), func(from, to int) []*T {
		return s.read(s.order.seats(make([]int32, 0, to-from), s.from+from, s.from+to))
	}}
}

// created lists the rows in the order of creation. It sorts them where the order has
// them otherwise.
func (s span[T]) created() rowList[T] {
	if s.whole && !s.order.shuffled {
		return s.ascending()
	}
	seats := s.order.seats(make([]int32, 0, s.len()), s.from, s.to)
	slices.Sort(seats)
	return rowList[T]{s.len(), func(from, to int) []*T { return s.read(seats[from:to]) }}
}

// sorted lists the rows by their order, one way or the other.
func (s span[T]) sorted(descending bool) rowList[T] {
	if !descending {
		return s.ascending()
	}
	return rowList[T]{s.len(), func(from, to int) (rows []*T) {
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
func (s span[T]) descend(at, to int) []*T {
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
