package table

import (
	"iter"
	"slices"
)

// ChunkSize is how many rows are copied when a row of a shared table changes.
const ChunkSize = 128

// Table holds the rows of one resource in the order they were created. Rows are
// never changed in place: a change puts a new row in the old one's seat, so that
// a reader may keep the pointer it was given.
//
// A fork and its origin share everything until one of them writes: seats that both
// know are in layers that are not written any more, and only changed chunks are
// copied.
type Table[T any] struct {
	seats   Map[string, seat] // of the rows, by id
	Rows    column[*T]
	Indexes []Index[T]
	first   int // the seat of the oldest row
	live    int // how many rows there are
}

// seat is where a row of a table is; the zero value says that there is no such row.
type seat int

func seatOf(n int) seat    { return seat(n + 1) }
func (s seat) number() int { return int(s) - 1 }

// IndexBy adds ways to list the rows; see [Table.Span]. It comes before the first
// row.
func (t *Table[T]) IndexBy(orders ...Index[T]) { t.Indexes = append(t.Indexes, orders...) }

// Fork may write to its origin, unless nothing was written since the last fork.
func (t *Table[T]) Fork() Table[T] {
	if t.seats.seal() {
		t.Rows.share()
		for i := range t.Indexes {
			t.Indexes[i].share()
		}
	}
	f := *t
	f.Rows = t.Rows.fork()
	f.Indexes = slices.Clone(t.Indexes)
	for i := range t.Indexes {
		f.Indexes[i] = t.Indexes[i].fork()
	}
	return f
}

// Grow makes room for n rows more, where that is known.
func (t *Table[T]) Grow(n int) { t.seats.Grow(n) }

func (t *Table[T]) Len() int { return t.live }

// At returns a row by its place in the order of creation. It is for tables of which
// only the oldest rows are removed.
func (t *Table[T]) At(place int) *T { return t.Rows.At(t.first + place) }

func (t *Table[T]) Get(id string) (*T, bool) {
	s := t.seats.Get(id)
	if s == 0 {
		return nil, false
	}
	return t.Rows.At(s.number()), true
}

// Number is what columns know the row of an id by.
func (t *Table[T]) Number(id string) int { return t.seats.Get(id).number() }

// Put adds a row or takes the place of the one with the same id.
func (t *Table[T]) Put(id string, row *T) {
	t.seats.dirty = true
	if s := t.seats.Get(id); s != 0 {
		n := s.number()
		old := t.Rows.At(n)
		t.Rows.set(n, row)
		for i := range t.Indexes {
			t.Indexes[i].move(&t.Rows, n, old)
		}
		return
	}
	n := t.Rows.End
	t.seats.Put(id, seatOf(n))
	t.Rows.set(n, row)
	t.live++
	for i := range t.Indexes {
		t.Indexes[i].add(&t.Rows, n)
	}
}

// Remove takes a row away.
func (t *Table[T]) Remove(id string) {
	s := t.seats.Get(id)
	if s == 0 {
		return
	}
	t.seats.Remove(id)
	n := s.number()
	for i := range t.Indexes {
		t.Indexes[i].remove(&t.Rows, n, t.Rows.At(n))
	}
	t.Rows.set(n, nil)
	t.live--
	for t.first < t.Rows.End && t.Rows.At(t.first) == nil {
		t.first++
	}
	t.Rows.forget(t.first)
}

// All yields the rows in the order they were created.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := t.first; n < t.Rows.End; n++ {
			if row := t.Rows.At(n); row != nil && !yield(row) {
				return
			}
		}
	}
}

// Where returns the rows that a condition holds for. It walks the whole table.
func (t *Table[T]) Where(keep func(*T) bool) []*T {
	var rows []*T
	for row := range t.All() {
		if keep(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// column keeps values by number, in chunks that forks share until one is written.
type column[V any] struct {
	chunks []*[ChunkSize]V
	mine   []bool // chunks that are ours to write
	before int    // how many chunks were forgotten
	End    int    // the number after the last value
}

func (c *column[V]) At(n int) V { return c.chunks[n/ChunkSize-c.before][n%ChunkSize] }

// set writes a value; the number after the last one adds it.
func (c *column[V]) set(n int, value V) {
	chunk := n/ChunkSize - c.before
	switch {
	case chunk == len(c.chunks):
		c.chunks = append(c.chunks, new([ChunkSize]V))
		c.mine = append(c.mine, true)
	case !c.mine[chunk]:
		copied := *c.chunks[chunk]
		c.chunks[chunk], c.mine[chunk] = &copied, true
	}
	c.chunks[chunk][n%ChunkSize] = value
	c.End = max(c.End, n+1)
}

// forget frees the chunks before a number. Values in them are not read any more.
func (c *column[V]) forget(n int) {
	if gone := n/ChunkSize - c.before; gone > 0 {
		c.chunks = append([]*[ChunkSize]V(nil), c.chunks[gone:]...)
		c.mine = append([]bool(nil), c.mine[gone:]...)
		c.before += gone
	}
}

// share gives up what is ours.
func (c *column[V]) share() { c.mine = make([]bool, len(c.chunks)) }

func (c *column[V]) fork() column[V] {
	f := *c
	f.chunks = append([]*[ChunkSize]V(nil), c.chunks...)
	f.mine = make([]bool, len(c.chunks))
	return f
}
