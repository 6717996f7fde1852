package catalogsync

import (
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
	ids      map[string]uint32
	terms    []string
	of       []uint32 // the term's id, of each posting
	postings []uint32
}

func newBuilder() *builder { return &builder{ids: map[string]uint32{}} }

func (b *builder) add(term string, product int, where place) {
	id, known := b.ids[term]
	if !known {
		id = uint32(len(b.terms))
		b.ids[term], b.terms = id, append(b.terms, term)
	}
	b.of, b.postings = append(b.of, id), append(b.postings, uint32(product)<<2|uint32(where))
}

func (b *builder) table() table {
	t := table{terms: slices.Sorted(slices.Values(b.terms)), starts: make([]uint32, len(b.terms)+1), postings: make([]uint32, len(b.postings))}
	position := make([]uint32, len(b.terms)) // of an id in t.terms
	for i, term := range t.terms {
		position[b.ids[term]] = uint32(i)
	}
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
