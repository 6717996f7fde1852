package catalogsync

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
)

// index is a searchable catalog. It never changes, and is safe for concurrent use.
type index struct {
	asOf     time.Time // start of reading the products
	products []product // in the order of equally good hits

	words      table // of names and brands
	texts      table // names and brands without separators, from each part of a word on
	codes      table // SKUs and UPCs without separators, from each word on
	attributes table // brands, ingredients and allergens, see ofBrand

	scratch sync.Pool
}

// product is the content of a [Hit]. A [catalog.Product] takes several times the memory of the
// whole index.
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

// newIndex builds an index of the records in store. If a record changes during the read, it
// may be read twice, or may be gone although it was read. The revision of the store differs at
// the next call then.
func newIndex(ctx context.Context, store catalogstore.Store, asOf time.Time) (*index, error) {
	found, err := gather(ctx, store)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	})
	x := &index{asOf: asOf, products: make([]product, len(found))}
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
	return x.ready(), nil
}

func (x *index) ready() *index {
	products := len(x.products)
	x.scratch.New = func() any { return &scratch{cells: make([]cell, products)} }
	return x
}

// at returns the same index with another asOf.
func (x *index) at(asOf time.Time) *index {
	return (&index{asOf: asOf, products: x.products, words: x.words, texts: x.texts, codes: x.codes, attributes: x.attributes}).ready()
}

// changesPage is the number of records per read of a store.
const changesPage = 1000

// gather reads the records of a store that are not gone, each in its last state.
func gather(ctx context.Context, store catalogstore.Store) ([]candidate, error) {
	var found []candidate
	at := map[string]int{}
	shared := map[string]string{} // texts that many products share
	for after := int64(0); ; {
		records, err := store.Changes(ctx, after, changesPage)
		if err != nil || len(records) == 0 {
			return found, err
		}
		for _, r := range records {
			after = r.Revision
			if r.Presence == catalogstore.PresenceGone {
				continue
			}
			c := newCandidate(r, shared)
			if i, known := at[c.id]; known {
				found[i] = c
				continue
			}
			at[c.id], found = len(found), append(found, c)
		}
	}
}

// newCandidate copies all strings. Otherwise they would keep whole API responses in memory.
func newCandidate(r catalogstore.Record, shared map[string]string) candidate {
	share := func(text string) string {
		kept, known := shared[text]
		if !known {
			kept = strings.Clone(text)
			shared[kept] = kept
		}
		return kept
	}
	p := r.Product
	c := candidate{prefix: share(p.Brand.Prefix), product: product{
		id: strings.Clone(p.ID), name: strings.Clone(p.Name), brandID: share(p.Brand.ID), brand: share(p.Brand.Name),
		status: catalog.Status(share(string(p.Status))),
	}}
	add := func(v catalog.Variant) {
		if !slices.ContainsFunc(c.variants, func(has variant) bool { return has.id == v.ID }) {
			c.variants = append(c.variants, variant{
				strings.Clone(v.ID), strings.Clone(v.SKU), strings.Clone(v.UPC), strings.Clone(v.SupplierSKU), catalog.Status(share(string(v.Status))),
			})
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
			c.attributes = append(c.attributes, share(kind+id))
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
