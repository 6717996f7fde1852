// Package table stores the rows of one resource in the order of their creation, and indexes
// them by their owners.
package table

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"weak"
)

// Table contains rows, and finds them by id and by key. [Index] prepares an empty or decoded
// table. A table is not safe for concurrent use: its owner's lock guards it.
//
// R is a pointer. Rows are never changed in place. A change replaces the row, so a reader may
// keep the pointer that it got.
//
// Assignment copies a table. The copy shares rows and index with the original, and copies the
// parts that it changes. The original must not change anymore, unless [Share] made the copy.
//
// Table has functions in place of methods, because a package compiles all methods of each
// Table that its imports mention. The tests of integrators mention 23 of them.
type Table[R comparable] struct {
	Rows  []R // in the order of creation; read-only
	index *index[R]
	place byte // only its address matters, see index
}

// Key selects the rows with one owner, or with another common value such as an e-mail address.
type Key struct{ Field, Value string }

// Entry describes a row to its table.
type Entry struct {
	ID   string
	Keys []Key
	Text string // for [Search] with the first key
}

type index[R comparable] struct {
	table    weak.Pointer[byte] // place of the table that may change the index; others copy it first
	token    *byte              // of the groups that the table may change
	describe func(R) Entry
	ids      map[string]place[R]
	groups   map[Key]*group[R] // the zero Key selects all rows
	last     int               // number of the newest row
}

// place is a row and its number in the order of creation.
type place[R comparable] struct {
	row    R
	number int
}

// group contains the rows with a key in the order of creation.
type group[R comparable] struct {
	token   *byte // of the index that may change the group; others copy it first
	rows    []R
	numbers []int  // of the rows
	texts   []text // of the rows, or nil if none has a text
}

// text is a text in lower case. Its letters rule out most rows of a search.
type text struct {
	letters uint64
	lower   string
}

// Index indexes the rows of a table. Entries must depend only on the row. It returns an error
// if a row is missing or occurs twice.
func Index[R comparable](t *Table[R], describe func(R) Entry) error {
	rows := t.Rows
	*t = Table[R]{index: &index[R]{describe: describe, ids: make(map[string]place[R]), groups: make(map[Key]*group[R])}}
	for _, row := range rows {
		if row == *new(R) {
			return errors.New("a row is missing")
		}
		Put(t, row)
	}
	if len(t.Rows) != len(rows) {
		return errors.New("a row occurs twice")
	}
	return nil
}

// Share returns a copy of a table that may change.
func Share[R comparable](t *Table[R]) Table[R] {
	t.index.table = weak.Pointer[byte]{}
	return *t
}

// Get returns the row with an id.
func Get[R comparable](t Table[R], id string) (R, bool) {
	at, known := t.index.ids[id]
	return at.row, known
}

// Of returns the rows with a key in the order of creation. The slice is read-only and valid
// until the table changes.
func Of[R comparable](t Table[R], field, value string) []R {
	if of := t.index.groups[Key{field, value}]; of != nil {
		return of.rows
	}
	return nil
}

// Where returns the rows for which keep returns true.
func Where[R any](rows []R, keep func(R) bool) []R {
	var kept []R
	for _, row := range rows {
		if keep(row) {
			kept = append(kept, row)
		}
	}
	return kept
}

// Map returns the values of rows. It is never nil.
func Map[R, V any](rows []R, value func(R) V) []V {
	values := make([]V, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

// Search returns the rows with a key whose text contains every word of a query. The key must be
// the first of its rows. Search ignores case.
func Search[R comparable](t Table[R], field, value, query string) (found []R) {
	of, words := t.index.groups[Key{field, value}], strings.Fields(strings.ToLower(query))
	if of == nil || len(words) == 0 {
		return Of(t, field, value)
	}
	wanted := fold(strings.Join(words, ""))
	for i, have := range of.texts {
		if wanted.letters&^have.letters == 0 && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(have.lower, word) }) {
			found = append(found, of.rows[i])
		}
	}
	return found
}

func fold(s string) text {
	folded := text{lower: strings.ToLower(s)}
	for _, letter := range []byte(folded.lower) {
		folded.letters |= 1 << (letter % 64)
	}
	return folded
}

// Put adds a row, or replaces the row with the same id.
func Put[R comparable](t *Table[R], row R) { put(t, row, t.index.describe(row)) }

// PutText is like Put, for a row whose text depends on other tables. An empty text keeps the
// earlier one.
func PutText[R comparable](t *Table[R], row R, words string) {
	entry := t.index.describe(row)
	entry.Text = words
	put(t, row, entry)
}

func put[R comparable](t *Table[R], row R, entry Entry) {
	x, words := own(t), fold(entry.Text)
	at, known := x.ids[entry.ID]
	if known {
		for _, key := range x.describe(at.row).Keys {
			if !slices.Contains(entry.Keys, key) {
				leave(t, key, at.number)
			}
		}
	} else {
		x.last++
		at.number = x.last
	}
	at.row = row
	x.ids[entry.ID] = at
	t.Rows = join(t, Key{}, at, text{})
	for _, key := range entry.Keys {
		join(t, key, at, words)
		words = text{}
	}
}

// Remove removes the row with an id, if there is one.
func Remove[R comparable](t *Table[R], id string) {
	x := own(t)
	at, known := x.ids[id]
	if !known {
		return
	}
	for _, key := range x.describe(at.row).Keys {
		leave(t, key, at.number)
	}
	t.Rows = leave(t, Key{}, at.number)
	delete(x.ids, id)
}

// own returns the index of a table for a change.
func own[R comparable](t *Table[R]) *index[R] {
	if t.index.table.Value() != &t.place { // weak, because a copy would keep its original alive
		x := *t.index
		x.table, x.token, x.ids, x.groups = weak.Make(&t.place), new(byte), maps.Clone(x.ids), maps.Clone(x.groups)
		t.index = &x
	}
	return t.index
}

// ownGroup returns the rows with a key for a change.
func ownGroup[R comparable](t *Table[R], key Key) *group[R] {
	of := t.index.groups[key]
	switch {
	case of == nil:
		of = &group[R]{token: t.index.token}
	case of.token != t.index.token:
		of = &group[R]{t.index.token, slices.Clone(of.rows), slices.Clone(of.numbers), slices.Clone(of.texts)}
	default:
		return of
	}
	t.index.groups[key] = of
	return of
}

// join adds a row to a group or replaces it there.
func join[R comparable](t *Table[R], key Key, row place[R], words text) []R {
	of := ownGroup(t, key)
	at, known := slices.BinarySearch(of.numbers, row.number)
	if !known {
		of.rows, of.numbers = slices.Insert(of.rows, at, row.row), slices.Insert(of.numbers, at, row.number)
		if of.texts != nil {
			of.texts = slices.Insert(of.texts, at, text{})
		}
	}
	of.rows[at] = row.row
	if words.lower != "" {
		if of.texts == nil {
			of.texts = make([]text, len(of.rows))
		}
		of.texts[at] = words
	}
	return of.rows
}

// leave removes a row from a group.
func leave[R comparable](t *Table[R], key Key, number int) []R {
	of := ownGroup(t, key)
	at, _ := slices.BinarySearch(of.numbers, number)
	if at == 0 { // the oldest row
		of.rows, of.numbers = of.rows[1:], of.numbers[1:]
	} else {
		of.rows, of.numbers = slices.Delete(of.rows, at, at+1), slices.Delete(of.numbers, at, at+1)
	}
	if of.texts != nil {
		of.texts = slices.Delete(of.texts, at, at+1)
	}
	if len(of.rows) == 0 {
		delete(t.index.groups, key)
	}
	return of.rows
}
