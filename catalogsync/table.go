package catalogsync

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
)

// A posting is the number of a product, and in its two lowest bits the place where a term
// stands.
type place uint32

const (
	inName    place = iota // elsewhere than at its start
	nameStart              // or anything that is found without rank
	inBrand
)

// placeCost ranks the places. What is found by the beginning of a word only costs 1 more.
var placeCost = [...]uint16{inName: 2, nameStart: 0, inBrand: 4}

// table holds terms in order, and of each the postings in the order of products. The
// postings of neighbours are neighbours, so those of all terms with a prefix are one
// piece.
type table struct {
	terms    []string
	starts   []uint32 // of a term's postings; one more at the end
	postings []uint32
}

// span is a piece of a table's postings, and what is added to the cost of each.
type span struct {
	postings []uint32
	cost     uint16
}

func (t *table) span(from, to int, cost uint16) span {
	return span{t.postings[t.starts[from]:t.starts[to]], cost}
}

// exact are the postings of a term.
func (t *table) exact(term string) []span {
	at, found := slices.BinarySearch(t.terms, term)
	if !found {
		return nil
	}
	return []span{t.span(at, at+1, 0)}
}

// beginning are the postings of the terms that begin with a text.
func (t *table) beginning(text string, exact, longer uint16) []span {
	from, found := slices.BinarySearch(t.terms, text)
	to := from + sort.Search(len(t.terms)-from, func(i int) bool { return !strings.HasPrefix(t.terms[from+i], text) })
	if !found {
		return []span{t.span(from, to, longer)}
	}
	return []span{t.span(from, from+1, exact), t.span(from+1, to, longer)}
}

// similar are the postings of the terms whose beginning is one edit away from a text. It
// looks at all terms: a catalog has some ten thousand words, which takes less time than
// what finds similar words without looking at all would take in memory.
func (t *table) similar(text string, cost uint16) (spans []span) {
	for i, term := range t.terms {
		if oneEdit(text, term) {
			spans = append(spans, t.span(i, i+1, cost))
		}
	}
	return spans
}

// oneEdit says whether a beginning of term becomes text when one letter is replaced, added
// or left out, or two neighbours change places.
func oneEdit(text, term string) bool {
	same := 0
	for same < len(text) && same < len(term) && text[same] == term[same] {
		same++
	}
	text, term = text[same:], term[same:]
	if len(text) == 0 {
		return true
	}
	if strings.HasPrefix(term, text[1:]) { // one was added
		return true
	}
	if len(term) == 0 {
		return false
	}
	return strings.HasPrefix(term[1:], text[1:]) || strings.HasPrefix(term[1:], text) ||
		len(text) > 1 && len(term) > 1 && text[0] == term[1] && text[1] == term[0] && strings.HasPrefix(term[2:], text[2:])
}

// builder makes a table. Products have to come in their order.
type builder struct {
	ids      map[string]uint32 // nil where terms hardly repeat, so that looking for them costs more than it saves
	terms    []string
	of       []uint32 // the term's id, of each posting
	postings []uint32
}

// newBuilder makes room for some postings.
func newBuilder(room int) *builder {
	return &builder{ids: map[string]uint32{}, of: make([]uint32, 0, room), postings: make([]uint32, 0, room)}
}

// newUniqueBuilder is for terms of which nearly all are different.
func newUniqueBuilder(room int) *builder {
	return &builder{terms: make([]string, 0, room), of: make([]uint32, 0, room), postings: make([]uint32, 0, room)}
}

func (b *builder) add(term string, product int, where place) {
	id, known := b.ids[term]
	if !known {
		id = uint32(len(b.terms))
		b.terms = append(b.terms, term)
		if b.ids != nil {
			b.ids[term] = id
		}
	}
	b.of, b.postings = append(b.of, id), append(b.postings, uint32(product)<<2|uint32(where))
}

// sortedTerm is a term with its first eight bytes, by which most are put in order at once.
type sortedTerm struct {
	first uint64
	id    uint32
}

func (b *builder) table() table {
	sorted := make([]sortedTerm, len(b.terms))
	for id, term := range b.terms {
		var first [8]byte
		copy(first[:], term)
		sorted[id] = sortedTerm{binary.BigEndian.Uint64(first[:]), uint32(id)}
	}
	slices.SortFunc(sorted, func(x, y sortedTerm) int {
		if x.first != y.first {
			return cmp.Compare(x.first, y.first)
		}
		return cmp.Compare(b.terms[x.id], b.terms[y.id])
	})
	position := make([]uint32, len(b.terms)) // of an id in t.terms
	terms := make([]string, 0, len(b.terms))
	for _, s := range sorted {
		if term := b.terms[s.id]; len(terms) == 0 || terms[len(terms)-1] != term {
			terms = append(terms, term)
		}
		position[s.id] = uint32(len(terms) - 1)
	}
	t := table{terms: slices.Clone(terms), starts: make([]uint32, len(terms)+1), postings: make([]uint32, len(b.postings))}
	for _, id := range b.of {
		t.starts[position[id]+1]++
	}
	for i := range t.terms {
		t.starts[i+1] += t.starts[i]
	}
	next := slices.Clone(t.starts)
	for i, id := range b.of {
		at := &next[position[id]]
		t.postings[*at] = b.postings[i]
		*at++
	}
	return t
}
