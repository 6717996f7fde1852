// Package table stores the rows of one resource in the order of their creation.
package table

import (
	"errors"
	"iter"
	"maps"
	"slices"
)

// Table contains rows by id. The zero value is empty. A table is not safe for concurrent
// use: its owner's lock guards it.
//
// R is a pointer. Rows are never changed in place. A change replaces the row, so a reader
// may keep the pointer that it got, and a clone shares the rows.
//
// Table has functions in place of methods, because a package compiles all methods of each
// Table that its imports mention. The tests of integrators mention 24 of them.
type Table[R any] struct {
	Rows  map[string]R
	Order []string // ids in the order of creation; ids of removed rows may remain
}

// Clone returns a table with the same rows.
func Clone[R any](t Table[R]) Table[R] {
	return Table[R]{maps.Clone(t.Rows), slices.Clone(t.Order)}
}

// Get returns the row with an id.
func Get[R any](t Table[R], id string) (R, bool) {
	row, known := t.Rows[id]
	return row, known
}

// At returns a row by its place in the order of creation. Only the oldest rows of such a
// table may have been removed.
func At[R any](t Table[R], place int) R { return t.Rows[t.Order[place]] }

// Put adds a row, or replaces the row with the same id.
func Put[R any](t *Table[R], id string, row R) {
	if t.Rows == nil {
		t.Rows = make(map[string]R)
	}
	if _, known := t.Rows[id]; !known {
		t.Order = append(t.Order, id)
	}
	t.Rows[id] = row
}

// Remove removes the row of an id, if there is one. A loop over [All] may call it.
func Remove[R any](t *Table[R], id string) {
	delete(t.Rows, id)
	for len(t.Order) > 0 {
		if _, known := t.Rows[t.Order[0]]; known {
			break
		}
		t.Order = t.Order[1:]
	}
}

// All yields the rows in the order they were created.
func All[R any](t Table[R]) iter.Seq[R] {
	return func(yield func(R) bool) {
		for _, id := range t.Order {
			if row, known := t.Rows[id]; known && !yield(row) {
				return
			}
		}
	}
}

// Where returns the rows for which keep returns true.
func Where[R any](t Table[R], keep func(R) bool) []R {
	var rows []R
	for row := range All(t) {
		if keep(row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// Check returns an error if a decoded table has a missing row, or a row with no place or two.
func Check[R comparable](t Table[R]) error {
	for _, row := range t.Rows {
		if row == *new(R) {
			return errors.New("a row is missing")
		}
	}
	placed := 0
	for range All(t) {
		placed++
	}
	if placed != len(t.Rows) {
		return errors.New("a row has no place or two")
	}
	return nil
}
