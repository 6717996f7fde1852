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
	seats  layers[int] // of the rows, by id
	chunks []*[chunkSize]*T
	mine   []bool // chunks that are ours to write
	n      int
	keys   []keyed[T]
}

// keyed is a second way to find the rows of a table.
type keyed[T any] struct {
	key func(*T) string // "" is found by nobody
	ids index
}

// findBy lets rows be found by keys of theirs; see with. It comes before the first
// row.
func (t *table[T]) findBy(keys ...func(*T) string) {
	for _, key := range keys {
		t.keys = append(t.keys, keyed[T]{key: key})
	}
}

// with returns the rows whose n-th key it is, in the order they were created.
func (t *table[T]) with(n int, key string) []*T {
	var seats []int
	for _, id := range t.keys[n].ids.get(key) {
		seat, _ := t.seat(id)
		seats = append(seats, seat)
	}
	slices.Sort(seats)
	rows := make([]*T, 0, len(seats))
	for _, seat := range seats {
		rows = append(rows, t.at(seat))
	}
	return rows
}

// fork may write to its origin, unless nothing was written since the last fork.
func (t *table[T]) fork() table[T] {
	if t.seats.seal() {
		t.mine = make([]bool, len(t.chunks))
	}
	f := table[T]{
		seats: t.seats, n: t.n,
		chunks: append([]*[chunkSize]*T(nil), t.chunks...),
		mine:   make([]bool, len(t.chunks)),
	}
	for i := range t.keys {
		f.keys = append(f.keys, keyed[T]{key: t.keys[i].key, ids: t.keys[i].ids.fork()})
	}
	return f
}

// grow makes room for n rows more, where that is known.
func (t *table[T]) grow(n int) { t.seats.grow(n) }

func (t *table[T]) len() int { return t.n }

func (t *table[T]) at(seat int) *T { return t.chunks[seat/chunkSize][seat%chunkSize] }

func (t *table[T]) get(id string) (*T, bool) {
	seat, ok := t.seat(id)
	if !ok {
		return nil, false
	}
	return t.at(seat), true
}

func (t *table[T]) seat(id string) (int, bool) { return t.seats.get(id) }

// put adds a row or takes the place of the one with the same id.
func (t *table[T]) put(id string, row *T) {
	seat, ok := t.seat(id)
	if !ok {
		seat = t.n
		t.n++
		t.seats.put(id, seat)
	}
	t.seats.dirty = true
	for i := range t.keys {
		k, before := &t.keys[i], ""
		if ok {
			before = k.key(t.at(seat))
		}
		k.ids.move(before, k.key(row), id)
	}
	at := seat / chunkSize
	switch {
	case at == len(t.chunks):
		t.chunks = append(t.chunks, new([chunkSize]*T))
		t.mine = append(t.mine, true)
	case !t.mine[at]:
		copied := *t.chunks[at]
		t.chunks[at], t.mine[at] = &copied, true
	}
	t.chunks[at][seat%chunkSize] = row
}

// all yields the rows in the order they were created.
func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for seat := range t.n {
			if !yield(t.at(seat)) {
				return
			}
		}
	}
}

// where returns the rows that a condition holds for.
func (t *table[T]) where(keep func(*T) bool) []*T {
	var rows []*T
	for row := range t.all() {
		if keep(row) {
			rows = append(rows, row)
		}
	}
	return rows
}
