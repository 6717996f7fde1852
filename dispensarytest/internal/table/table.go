// Package table holds rows that forks share until one of them is written: tables with
// indexes, maps and a search index. It knows nothing of what the rows are. None of its
// types is safe for concurrent use; their owner's lock guards them.
package table

import (
	"iter"
	"slices"
)

// Table holds the rows of one resource in the order they were created. Rows are
// never changed in place: a change puts a new row in the old one's seat, so that
// a reader may keep the pointer it was given.
//
// R is a pointer, so that all tables are one to the compiler: with the rows themselves it
// would compile everything here for each resource, in each package that a platform can be
// reached from, those of an integrator's tests included.
//
// A fork and its origin share everything until one of them writes: seats that both
// know are in layers that are not written any more, and only changed chunks are
// copied.
type Table[R any] struct {
	seats Map[string, seat] // of the rows, by id
	Rows  column[R]
	first int // the seat of the oldest row
	live  int // how many rows there are
}

// seat is where a row of a table is; the zero value says that there is no such row.
type seat int

func seatOf(n int) seat { return seat(n + 1) }

func (s seat) number() int { return int(s) - 1 }

// same compares pointers.
func same[R any](a, b R) bool { return any(a) == any(b) }

// Fork may write to its origin, unless nothing was written since the last fork.
func (t *Table[R]) Fork() Table[R] {
	if t.seats.seal() {
		t.Rows.share()
	}
	f := *t
	f.Rows = t.Rows.fork()
	return f
}

// Grow makes room for n rows more, where that is known.
func (t *Table[R]) Grow(n int) { t.seats.Grow(n) }

func (t *Table[R]) Len() int { return t.live }

// At returns a row by its place in the order of creation. It is for tables of which
// only the oldest rows are removed.
func (t *Table[R]) At(place int) R { return t.Rows.At(t.first + place) }

func (t *Table[R]) Get(id string) (row R, known bool) {
	s := t.seats.Get(id)
	if s == 0 {
		return row, false
	}
	return t.Rows.At(s.number()), true
}

// Put adds a row or takes the place of the one with the same id.
func (t *Table[R]) Put(id string, row R) {
	t.seats.dirty = true
	if s := t.seats.Get(id); s != 0 {
		n := s.number()
		t.Rows.set(n, row)
		return
	}
	n := t.Rows.End
	t.seats.Put(id, seatOf(n))
	t.Rows.set(n, row)
	t.live++
}

// Remove takes a row away.
func (t *Table[R]) Remove(id string) {
	s := t.seats.Get(id)
	if s == 0 {
		return
	}
	t.seats.Remove(id)
	n := s.number()
	var none R
	t.Rows.set(n, none)
	t.live--
	for t.first < t.Rows.End && same(t.Rows.At(t.first), none) {
		t.first++
	}
	t.Rows.forget(t.first)
}

// All yields the rows in the order they were created.
func (t *Table[R]) All() iter.Seq[R] {
	return func(yield func(R) bool) {
		var none R
		for n := t.first; n < t.Rows.End; n++ {
			if row := t.Rows.At(n); !same(row, none) && !yield(row) {
				return
			}
		}
	}
}

// Where returns the rows that a condition holds for. It walks the whole table.
func (t *Table[R]) Where(keep func(R) bool) []R {
	var rows []R
	for row := range t.All() {
		if keep(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// Same reports that two states of one table are the same: nothing was written between
// them.
func (t *Table[R]) Same(other *Table[R]) bool {
	return t.Rows.End == other.Rows.End && t.live == other.live && slices.Equal(t.Rows.chunks, other.Rows.chunks)
}

// ChangedRows collects the rows of a table that another one has not. Rows are replaced and
// never changed, and chunks of them are copied before they are written: what has the
// same address is the same.
func ChangedRows[R any, F any](now, base *Table[R], as func(R) F) (file []F) {
	var none R
	for at, chunk := range now.Rows.chunks {
		n := (now.Rows.before + at) * ChunkSize
		if here := n/ChunkSize - base.Rows.before; here >= 0 && here < len(base.Rows.chunks) && base.Rows.chunks[here] == chunk {
			continue
		}
		for i, row := range chunk {
			if !same(row, none) && !(n+i >= base.first && n+i < base.Rows.End && same(base.Rows.At(n+i), row)) {
				file = append(file, as(row))
			}
		}
	}
	return file
}

// Changed is changed for rows that are saved as they are.
func Changed[R any](now, base *Table[R]) []R {
	return ChangedRows(now, base, func(row R) R { return row })
}
