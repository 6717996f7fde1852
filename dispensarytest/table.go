package dispensarytest

import "iter"

// chunkSize is how many rows are copied when a row of a shared table changes.
const chunkSize = 128

// table holds the rows of one resource in the order they were created. Rows are
// never changed in place: a change puts a new row in the old one's seat, so that
// a reader may keep the pointer it was given.
//
// A fork shares everything with its origin until one side writes: the index of
// the shared rows stays as it is, and only touched chunks are copied. The
// origin of a fork must not be written any more.
type table[T any] struct {
	shared map[string]int // seats of the rows both sides know; never written
	own    map[string]int // seats of the rows added since the fork
	chunks []*[chunkSize]*T
	mine   []bool // chunks that are ours to write
	n      int
}

func (t *table[T]) fork() table[T] {
	shared := t.own
	if t.shared != nil {
		shared = make(map[string]int, len(t.shared)+len(t.own))
		for id, seat := range t.shared {
			shared[id] = seat
		}
		for id, seat := range t.own {
			shared[id] = seat
		}
	}
	return table[T]{
		shared: shared,
		chunks: append([]*[chunkSize]*T(nil), t.chunks...),
		mine:   make([]bool, len(t.chunks)),
		n:      t.n,
	}
}

func (t *table[T]) len() int { return t.n }

func (t *table[T]) at(seat int) *T { return t.chunks[seat/chunkSize][seat%chunkSize] }

func (t *table[T]) get(id string) (*T, bool) {
	seat, ok := t.seat(id)
	if !ok {
		return nil, false
	}
	return t.at(seat), true
}

func (t *table[T]) seat(id string) (int, bool) {
	if seat, ok := t.own[id]; ok {
		return seat, true
	}
	seat, ok := t.shared[id]
	return seat, ok
}

// put adds a row or takes the place of the one with the same id.
func (t *table[T]) put(id string, row *T) {
	seat, ok := t.seat(id)
	if !ok {
		seat = t.n
		t.n++
		if t.own == nil {
			t.own = make(map[string]int)
		}
		t.own[id] = seat
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

// lookup maps a secondary key, such as an e-mail address, to a row's id. It
// forks like a table.
type lookup struct {
	shared map[string]string
	own    map[string]string // an empty id hides a shared one
}

func (l *lookup) fork() lookup {
	if l.shared == nil {
		return lookup{shared: l.own}
	}
	shared := make(map[string]string, len(l.shared)+len(l.own))
	for key, id := range l.shared {
		shared[key] = id
	}
	for key, id := range l.own {
		shared[key] = id
	}
	return lookup{shared: shared}
}

func (l *lookup) get(key string) string {
	if id, ok := l.own[key]; ok {
		return id
	}
	return l.shared[key]
}

func (l *lookup) put(key, id string) {
	if l.own == nil {
		l.own = make(map[string]string)
	}
	l.own[key] = id
}
