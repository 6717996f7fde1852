package catalogsync

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
)

// index is a searchable catalog. It never changes, and is safe for concurrent use.
type index struct {
	asOf     time.Time // start of reading the products
	revision int64     // of the catalog
	products []product // in the order of equally good hits

	words      table // of names and brands
	texts      table // names and brands without separators, from each part of a word on
	codes      table // SKUs and UPCs without separators, from each word on
	attributes table // brands, ingredients and allergens, see ofBrand

	scratch sync.Pool
}

// scratch is the working memory of one search.
type scratch struct {
	cells   []cell   // by product, all zero between searches
	touched []uint32 // products whose cells may not be zero
}

// cell is the state of a product during a search.
type cell struct {
	met  uint8  // number of requirements that it meets
	cost uint16 // of all of them
	last uint16 // of the last one
}

// product is the content of a [Hit].
type product struct {
	id, name, brandID, brand string
	status                   catalog.Status
	variants                 []variant // the primary one first
}

type variant struct {
	id, sku, upc, supplierSKU string
	status                    catalog.Status
}

// candidate is a product while an index is built.
type candidate struct {
	product
	prefix     string // of its brand
	attributes []string
}

// The kinds of attributes. A term for an attribute is a kind and an id.
const (
	ofBrand      = "brand/"
	ofIngredient = "ingredient/"
	ofAllergen   = "allergen/"
)

// newIndex builds an index of the records that are not gone. Its texts share the memory of the
// records.
func newIndex(records []*record, asOf time.Time, revision int64) *index {
	found := make([]candidate, 0, len(records))
	for _, r := range records {
		if r.Presence != PresenceGone {
			found = append(found, newCandidate(r.Record))
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	})
	x := &index{asOf: asOf, revision: revision, products: make([]product, len(found))}
	words, texts := newBuilder(12*len(found)), newUniqueBuilder(10*len(found))
	codes, attributes := newUniqueBuilder(16*len(found)), newBuilder(4*len(found))
	for i, p := range found {
		x.products[i] = p.product
		addText(words, texts, i, p.name, nameStart, inName)
		addText(words, texts, i, p.brand, inBrand, inBrand)
		addText(words, texts, i, p.prefix, inBrand, inBrand)
		for _, v := range p.variants {
			addCodes(codes, i, v)
		}
		for _, attribute := range p.attributes {
			attributes.add(attribute, i, nameStart)
		}
	}
	x.words, x.texts, x.codes, x.attributes = words.table(), texts.table(), codes.table(), attributes.table()
	return x.ready()
}

func (x *index) ready() *index {
	products := len(x.products)
	x.scratch.New = func() any { return &scratch{cells: make([]cell, products)} }
	return x
}

// at returns the same index with another asOf.
func (x *index) at(asOf time.Time) *index {
	return (&index{asOf: asOf, revision: x.revision, products: x.products, words: x.words, texts: x.texts, codes: x.codes, attributes: x.attributes}).ready()
}

func newCandidate(r Record) candidate {
	p := r.Product
	c := candidate{prefix: p.Brand.Prefix, product: product{id: p.ID, name: p.Name, brandID: p.Brand.ID, brand: p.Brand.Name, status: p.Status}}
	add := func(v catalog.Variant) {
		if !slices.ContainsFunc(c.variants, func(has variant) bool { return has.id == v.ID }) {
			c.variants = append(c.variants, variant{v.ID, v.SKU, v.UPC, v.SupplierSKU, v.Status})
		}
	}
	if p.PrimaryVariant != nil {
		add(*p.PrimaryVariant)
	}
	for _, primary := range []bool{true, false} {
		for _, v := range p.Variants {
			if v.Primary == primary {
				add(v)
			}
		}
	}
	for kind, ids := range map[string][]string{ofBrand: {p.Brand.ID}, ofIngredient: r.IngredientIDs, ofAllergen: r.AllergenIDs} {
		for _, id := range ids {
			c.attributes = append(c.attributes, kind+id)
		}
	}
	return c
}

// short is the maximum length, in bytes, of a part that is often joined with its neighbor, as
// in B12 and 500mg.
const short = 2

// addText adds a name or a brand. It adds to terms each part, and each pair of neighbors if they
// belong to one word or one of them is short. It adds to texts the rest of the text from each part
// on. A name with & or + is also found by the word and. The first part gets the place first, and
// the others get the place other.
func addText(terms, texts *builder, product int, text string, first, other place) {
	var joined strings.Builder
	type start struct {
		at         int
		apart, cut bool // apart: never joined with the part before, cut: begins a word
	}
	var starts []start
	for _, w := range words(text) {
		if w.and {
			terms.add("and", product, other)
			texts.add("and", product, other)
		}
		for i, at := range w.parts() {
			starts = append(starts, start{joined.Len() + at, i == 0 && !w.joined, i == 0})
		}
		joined.WriteString(w.text)
	}
	all := joined.String()
	for i, end, rest := len(starts)-1, len(all), len(all); i >= 0; i-- {
		s, where := starts[i], other
		if i == 0 {
			where = first
		}
		terms.add(all[s.at:end], product, where)
		texts.add(all[s.at:min(rest, s.at+maxQuery)], product, where)
		if i > 0 && !s.apart {
			before := starts[i-1].at
			if !s.cut || s.at-before <= short || end-s.at <= short {
				if i == 1 {
					where = first
				}
				terms.add(all[before:end], product, where)
			}
		}
		if end = s.at; s.apart {
			rest = s.at
		}
	}
}

// addCodes adds the codes of a variant.
func addCodes(b *builder, product int, v variant) {
	for _, text := range []string{v.sku, v.upc, v.supplierSKU} {
		for _, term := range codeTerms(text) {
			b.add(term, product, nameStart)
		}
	}
}

// place is the position of a term in a product. A posting is the number of a product with a
// place in its two lowest bits.
type place uint32

const (
	inName    place = iota // but not at its start
	nameStart              // also for terms without a rank
	inBrand
)

// placeCost is the cost of each place. The beginning of a word costs 1 more.
var placeCost = [...]uint16{inName: 2, nameStart: 0, inBrand: 4}

// table contains sorted terms and the postings of each, sorted by product. The postings of
// neighboring terms are neighbors, so all terms with one prefix have one range of postings.
type table struct {
	terms    []string
	starts   []uint32 // of a term's postings, and the total at the end
	postings []uint32
}

// span is a range of postings with the cost to add to each.
type span struct {
	postings []uint32
	cost     uint16
}

func (t *table) span(from, to int, cost uint16) span {
	return span{t.postings[t.starts[from]:t.starts[to]], cost}
}

// exact returns the postings of a term.
func (t *table) exact(term string) []span {
	at, found := slices.BinarySearch(t.terms, term)
	if !found {
		return nil
	}
	return []span{t.span(at, at+1, 0)}
}

// beginning returns the postings of the terms that begin with text. exact is the cost of text
// itself, and longer is the cost of longer terms.
func (t *table) beginning(text string, exact, longer uint16) []span {
	from, found := slices.BinarySearch(t.terms, text)
	to := from + sort.Search(len(t.terms)-from, func(i int) bool { return !strings.HasPrefix(t.terms[from+i], text) })
	if !found {
		return []span{t.span(from, to, longer)}
	}
	return []span{t.span(from, from+1, exact), t.span(from+1, to, longer)}
}

// similar returns the postings of the terms whose beginning is one edit away from text. It
// compares all terms. A catalog has some ten thousand words, so this takes little time, and an
// index for similar words would need more memory.
func (t *table) similar(text string, cost uint16) (spans []span) {
	for i, term := range t.terms {
		if oneEdit(text, term) {
			spans = append(spans, t.span(i, i+1, cost))
		}
	}
	return spans
}

// oneEdit reports whether one edit turns a beginning of term into text. An edit replaces, adds
// or removes one letter, or swaps two neighbors.
func oneEdit(text, term string) bool {
	same := 0
	for same < len(text) && same < len(term) && text[same] == term[same] {
		same++
	}
	text, term = text[same:], term[same:]
	if len(text) == 0 {
		return true
	}
	if strings.HasPrefix(term, text[1:]) { // text has an extra letter
		return true
	}
	if len(term) == 0 {
		return false
	}
	return strings.HasPrefix(term[1:], text[1:]) || strings.HasPrefix(term[1:], text) ||
		len(text) > 1 && len(term) > 1 && text[0] == term[1] && text[1] == term[0] && strings.HasPrefix(term[2:], text[2:])
}

// builder builds a table. Products must be added in order.
type builder struct {
	ids      map[string]uint32 // nil if terms rarely repeat, because lookups would cost more than they save
	terms    []string
	of       []uint32 // id of the term, by posting
	postings []uint32
}

// newBuilder returns a builder for repeating terms, with room for some postings.
func newBuilder(room int) *builder {
	return &builder{ids: map[string]uint32{}, of: make([]uint32, 0, room), postings: make([]uint32, 0, room)}
}

// newUniqueBuilder returns a builder for terms that rarely repeat.
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

// sortedTerm is a term with its first eight bytes as a number, which is enough to sort most
// terms.
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
	position := make([]uint32, len(b.terms)) // index in terms, by id
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
