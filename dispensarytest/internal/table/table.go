// Package table keeps the rows of one resource in the order of their creation.
package table

import (
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
)

// Table contains rows by id. The zero value is empty. A table is not safe for concurrent
// use: its owner's lock guards it.
//
// Rows are never changed in place. A change replaces the row, so a reader may keep the
// pointer that it got, and a clone shares the rows.
//
// R is a pointer, so that the compiler makes one table for all resources.
type Table[R comparable] struct {
	entries []entry[R]
	seats   map[string]int // place of an id in entries, plus gone
	gone    int            // entries that were removed at the front
}

// entry is a row as snapshots save it. The row is the zero value after its removal.
type entry[R comparable] struct {
	ID  string
	Row R
}

// Clone returns a table with the same rows.
func (t *Table[R]) Clone() Table[R] {
	return Table[R]{slices.Clone(t.entries), maps.Clone(t.seats), t.gone}
}

// Len returns the number of rows.
func (t *Table[R]) Len() int { return len(t.seats) }

// At returns a row by its place in the order of creation. Only the oldest rows of such a
// table may have been removed.
func (t *Table[R]) At(place int) R { return t.entries[place].Row }

// Get returns the row of an id.
func (t *Table[R]) Get(id string) (row R, known bool) {
	seat, known := t.seats[id]
	if known {
		row = t.entries[seat-t.gone].Row
	}
	return row, known
}

// Put adds a row, or replaces the row with the same id.
func (t *Table[R]) Put(id string, row R) {
	if seat, known := t.seats[id]; known {
		t.entries[seat-t.gone].Row = row
		return
	}
	if t.seats == nil {
		t.seats = make(map[string]int)
	}
	t.seats[id] = t.gone + len(t.entries)
	t.entries = append(t.entries, entry[R]{id, row})
}

// Remove removes the row of an id, if there is one. A loop over [Table.All] may call it.
func (t *Table[R]) Remove(id string) {
	seat, known := t.seats[id]
	if !known {
		return
	}
	delete(t.seats, id)
	t.entries[seat-t.gone] = entry[R]{}
	for len(t.entries) > 0 && t.entries[0] == (entry[R]{}) {
		t.entries = t.entries[1:]
		t.gone++
	}
}

// All yields the rows in the order they were created.
func (t *Table[R]) All() iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, e := range t.entries {
			if e != (entry[R]{}) && !yield(e.Row) {
				return
			}
		}
	}
}

// Where returns the rows for which keep returns true.
func (t *Table[R]) Where(keep func(R) bool) []R {
	var rows []R
	for row := range t.All() {
		if keep(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// MarshalJSON writes the rows with their ids, in the order they were created.
func (t *Table[R]) MarshalJSON() ([]byte, error) {
	kept := make([]entry[R], 0, t.Len())
	for _, e := range t.entries {
		if e != (entry[R]{}) {
			kept = append(kept, e)
		}
	}
	return json.Marshal(kept)
}

// UnmarshalJSON adds the rows that MarshalJSON wrote.
func (t *Table[R]) UnmarshalJSON(content []byte) error {
	var entries []entry[R]
	if err := json.Unmarshal(content, &entries); err != nil {
		return err
	}
	for _, e := range entries {
		if e.Row == *new(R) {
			return errors.New("an entry without a row")
		}
		t.Put(e.ID, e.Row)
	}
	return nil
}
