package table

import (
	"slices"
	"strings"
)

// Search finds the rows of a table by what their texts hold, and by facets. It
// numbers rows as the table does. A fork and its origin share everything until one of
// them writes.
type Search struct {
	rows   column[Text]
	every  *gram // the empty piece of text, which all rows hold
	Facets Map[Facet, *RowSet]
	owner  *owner // of what may be written in place; nil right after a fork
}

// Facet is a property that a row has or has not.
type Facet struct{ Kind, ID string }

// Text is what a row is found by.
type Text struct {
	Text   string // in lower case
	facets []Facet
}

func (s Text) Holds(words []string) bool {
	for _, word := range words {
		if !strings.Contains(s.Text, word) {
			return false
		}
	}
	return true
}

// Put makes a row known under a number: the next one, or one that was given out.
func (x *Search) Put(n int, text string, facets []Facet) {
	if x.owner == nil {
		x.owner = new(owner)
	}
	if x.every == nil {
		x.every = &gram{}
	}
	x.every = x.every.owned(x.owner)
	row := Text{strings.ToLower(text), facets}
	if n < x.rows.End {
		old := x.rows.At(n)
		if old.Text == row.Text && slices.Equal(old.facets, facets) {
			return
		}
		x.every.remove(x.owner, n, old.Text)
		x.setFacets(n, old.facets, false)
	}
	x.rows.set(n, row)
	x.every.add(x, n, row.Text)
	x.setFacets(n, facets, true)
}

func (x *Search) setFacets(n int, facets []Facet, has bool) {
	for _, m := range facets {
		set := x.Having(m).owned(x.owner)
		set.set(n, has)
		x.Facets.Put(m, set)
	}
}

// Fork may write to its origin, unless nothing was written since the last fork.
func (x *Search) Fork() Search {
	if x.owner != nil {
		x.owner = nil
		x.rows.share()
	}
	return Search{rows: x.rows.fork(), every: x.every, Facets: x.Facets.Fork()}
}

// Having returns the rows with a facet.
func (x *Search) Having(m Facet) *RowSet {
	if set := x.Facets.Get(m); set != nil {
		return set
	}
	return &RowSet{}
}

// FindAll is find among all rows.
func (x *Search) FindAll(words []string) *RowSet {
	if x.every == nil {
		return &RowSet{}
	}
	every := x.every.many
	if every == nil {
		every = &RowSet{}
		for _, n := range x.every.few {
			every.set(int(n), true)
		}
	}
	return x.Find(every, words)
}

// Find returns the rows of a set whose texts hold every word. Words are in lower case
// and hold no white space.
func (x *Search) Find(among *RowSet, words []string) *RowSet {
	for _, word := range words {
		holding, maybe := x.every.find(word)
		if holding == nil {
			found := &RowSet{}
			for _, n := range maybe {
				if among.has(int(n)) && x.rows.At(int(n)).Holds(words) {
					found.set(int(n), true)
				}
			}
			return found
		}
		among = among.And(holding)
	}
	return among
}

// fewRows is how many rows are looked through one by one.
const fewRows = 128

// gram is a piece of text, and the rows that have a word which holds it. Where these
// are many, the pieces that are longer by one byte are known, too; where they are
// few, they are looked through.
type gram struct {
	owner  *owner
	text   string
	few    []int32 // sorted
	many   *RowSet // nil while there are few
	longer []*gram // sorted
}

// find returns the rows that hold a text, or, if they are few, those that may.
func (g *gram) find(text string) (holding *RowSet, maybe []int32) {
	for i := 0; i < len(text) && g != nil && g.many != nil; i++ {
		g = g.child(text[i])
	}
	if g == nil {
		return nil, nil
	}
	return g.many, g.few
}

func (g *gram) place(next byte) (int, bool) {
	return slices.BinarySearchFunc(g.longer, next, func(longer *gram, next byte) int {
		return int(longer.text[len(g.text)]) - int(next)
	})
}

func (g *gram) child(next byte) *gram {
	if at, known := g.place(next); known {
		return g.longer[at]
	}
	return nil
}

// owned is the gram itself or, where it is shared, a copy to write to.
func (g *gram) owned(by *owner) *gram {
	if g.owner == by {
		return g
	}
	return &gram{owner: by, text: g.text, few: slices.Clone(g.few), many: g.many, longer: slices.Clone(g.longer)}
}

// childOf returns the piece that the text begins with and that is longer by one byte,
// to write to.
func (g *gram) childOf(by *owner, text string) *gram {
	at, known := g.place(text[len(g.text)])
	if !known {
		g.longer = slices.Insert(g.longer, at, &gram{owner: by, text: text[:len(g.text)+1]})
	}
	g.longer[at] = g.longer[at].owned(by)
	return g.longer[at]
}

// add notes a row under every piece of its words.
func (g *gram) add(x *Search, n int, text string) {
	g.note(x, n)
	for rest := range ends(text) {
		for piece := g; piece.many != nil && len(piece.text) < len(rest); {
			piece = piece.childOf(x.owner, rest)
			piece.note(x, n)
		}
	}
}

// note adds a row, once. Where there are many now, the rows that were few are noted
// under the longer pieces.
func (g *gram) note(x *Search, n int) {
	if g.many != nil {
		g.many = g.many.owned(x.owner)
		g.many.set(n, true)
		return
	}
	at, known := slices.BinarySearch(g.few, int32(n))
	if known {
		return
	}
	if g.few = slices.Insert(g.few, at, int32(n)); len(g.few) <= fewRows {
		return
	}
	rows := g.few
	g.few, g.many = nil, (&RowSet{}).owned(x.owner)
	for _, n := range rows {
		g.many.set(int(n), true)
		for rest := range ends(x.rows.At(int(n)).Text) {
			if len(rest) > len(g.text) && strings.HasPrefix(rest, g.text) {
				g.childOf(x.owner, rest).note(x, int(n))
			}
		}
	}
}

// remove takes a row out from under every piece of its words.
func (g *gram) remove(by *owner, n int, text string) {
	g.drop(by, n)
	for rest := range ends(text) {
		for piece := g; piece.many != nil && len(piece.text) < len(rest); {
			piece = piece.childOf(by, rest)
			piece.drop(by, n)
		}
	}
}

func (g *gram) drop(by *owner, n int) {
	if g.many != nil {
		g.many = g.many.owned(by)
		g.many.set(n, false)
		return
	}
	if at, known := slices.BinarySearch(g.few, int32(n)); known {
		g.few = slices.Delete(g.few, at, at+1)
	}
}

// ends yields the words of a text from every byte on.
func ends(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for word := range strings.FieldsSeq(text) {
			for at := range len(word) {
				if !yield(word[at:]) {
					return
				}
			}
		}
	}
}
