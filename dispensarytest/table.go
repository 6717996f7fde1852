package dispensarytest

import (
	"iter"
	"slices"
)

// chunkSize is how many rows are copied when a row of a shared table changes.
const chunkSize = 128

// table holds the rows of one resource in the order they were created. Rows are
// never changed in place: a change puts a new row in the old one's seat, so that
// a reader may keep the pointer it was given.
//
// A fork and its origin share everything until one of them writes: seats that both
// know are in layers that nobody writes any more, and only touched chunks are
// copied.
type table[T any] struct {
	seats  layers[string, seat] // of the rows, by id
	rows   column[*T]
	orders []order[T]
	first  int // the seat of the oldest row
	live   int // how many rows there are
}

// seat is where a row of a table is; the zero value says that there is no such row.
type seat int

func seatOf(n int) seat    { return seat(n + 1) }
func (s seat) number() int { return int(s) - 1 }

// sortedBy adds ways to list the rows; see [table.span]. It comes before the first
// row.
func (t *table[T]) sortedBy(orders ...order[T]) { t.orders = append(t.orders, orders...) }

// fork may write to its origin, unless nothing was written since the last fork.
func (t *table[T]) fork() table[T] {
	if t.seats.seal() {
		t.rows.share()
		for i := range t.orders {
			t.orders[i].share()
		}
	}
	f := *t
	f.rows = t.rows.fork()
	f.orders = slices.Clone(t.orders)
	for i := range t.orders {
		f.orders[i] = t.orders[i].fork()
	}
	return f
}

// grow makes room for n rows more, where that is known.
func (t *table[T]) grow(n int) { t.seats.grow(n) }

func (t *table[T]) len() int { return t.live }

// at returns a row by its place in the order of creation. It is for tables of which
// only the oldest rows are removed.
func (t *table[T]) at(place int) *T { return t.rows.at(t.first + place) }

func (t *table[T]) get(id string) (*T, bool) {
	s := t.seats.get(id)
	if s == 0 {
		return nil, false
	}
	return t.rows.at(s.number()), true
}

// number is what columns know the row of an id by.
func (t *table[T]) number(id string) int { return t.seats.get(id).number() }

// put adds a row or takes the place of the one with the same id.
func (t *table[T]) put(id string, row *T) {
	t.seats.dirty = true
	if s := t.seats.get(id); s != 0 {
		n := s.number()
		old := t.rows.at(n)
		t.rows.set(n, row)
		for i := range t.orders {
			t.orders[i].move(&t.rows, n, old)
		}
		return
	}
	n := t.rows.end
	t.seats.put(id, seatOf(n))
	t.rows.set(n, row)
	t.live++
	for i := range t.orders {
		t.orders[i].add(&t.rows, n)
	}
}

// remove takes a row away.
func (t *table[T]) remove(id string) {
	s := t.seats.get(id)
	if s == 0 {
		return
	}
	t.seats.remove(id)
	n := s.number()
	for i := range t.orders {
		t.orders[i].remove(&t.rows, n, t.rows.at(n))
	}
	t.rows.set(n, nil)
	t.live--
	for t.first < t.rows.end && t.rows.at(t.first) == nil {
		t.first++
	}
	t.rows.forget(t.first)
}

// all yields the rows in the order they were created.
func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for n := t.first; n < t.rows.end; n++ {
			if row := t.rows.at(n); row != nil && !yield(row) {
				return
			}
		}
	}
}

// where returns the rows that a condition holds for. It walks the whole table.
func (t *table[T]) where(keep func(*T) bool) []*T {
	var rows []*T
	for row := range t.all() {
		if keep(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// column keeps values by number, in chunks that forks share until one is written.
type column[V any] struct {
	chunks []*[chunkSize]V
	mine   []bool // chunks that are ours to write
	before int    // how many chunks were forgotten
	end    int    // the number after the last value
}

func (c *column[V]) at(n int) V { return c.chunks[n/chunkSize-c.before][n%chunkSize] }

// set writes a value; the number after the last one adds it.
func (c *column[V]) set(n int, value V) {
	chunk := n/chunkSize - c.before
	switch {
	case chunk == len(c.chunks):
		c.chunks = append(c.chunks, new([chunkSize]V))
		c.mine = append(c.mine, true)
	case !c.mine[chunk]:
		copied := *c.chunks[chunk]
		c.chunks[chunk], c.mine[chunk] = &copied, true
	}
	c.chunks[chunk][n%chunkSize] = value
	c.end = max(c.end, n+1)
}

// forget frees the chunks before a number. Values in them are not read any more.
func (c *column[V]) forget(n int) {
	if gone := n/chunkSize - c.before; gone > 0 {
		c.chunks = append([]*[chunkSize]V(nil), c.chunks[gone:]...)
		c.mine = append([]bool(nil), c.mine[gone:]...)
		c.before += gone
	}
}

// share gives up what is ours.
func (c *column[V]) share() { c.mine = make([]bool, len(c.chunks)) }

func (c *column[V]) fork() column[V] {
	f := *c
	f.chunks = append([]*[chunkSize]V(nil), c.chunks...)
	f.mine = make([]bool, len(c.chunks))
	return f
}
