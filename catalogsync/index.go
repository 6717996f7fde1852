package catalogsync

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

// Entry is a product as an [Index] takes it.
type Entry struct {
	// Product needs an ID. The variants that are found are PrimaryVariant and Variants;
	// a list of the API has the first only.
	Product catalog.Product

	// Attributes are what the product can be filtered by.
	Attributes
}

// IndexConfig is what an [Index] is made with. AsOf is required.
type IndexConfig struct {
	// AsOf is when the products were read, or the reading began: no change after it
	// can be relied on. The age of results counts from it.
	AsOf time.Time
}

// Index is a catalog to be searched. It never changes, and is safe for concurrent use. Get
// it from [NewIndex].
type Index struct {
	asOf     time.Time
	products []product // in the order in which those that match equally well are found

	words      table // of names and brands
	texts      table // names and brands without separators, from each part of their words on
	codes      table // SKUs and UPCs, without separators, from each of their parts on
	attributes table // see attribute

	scratch sync.Pool
}

// product is what is shown of one. It has far less than [catalog.Product], which takes
// several times the room of the whole index.
type product struct {
	id, name, brandID, brand string
	status                   catalog.Status
	variants                 []variant // the primary one first
}

type variant struct {
	id, sku, upc, supplierSKU string
	status                    catalog.Status
}

// candidate is a product while an index is made.
type candidate struct {
	product
	prefix     string // of its brand
	attributes []string
}

// The kinds of attributes: an attribute is a kind and an id.
const (
	ofBrand      = "brand/"
	ofIngredient = "ingredient/"
	ofAllergen   = "allergen/"
)

// NewIndex makes an index of products, of which the last counts if several have the same
// id. It keeps no product. An error is an [*api.ArgumentError].
func NewIndex(entries iter.Seq[Entry], c IndexConfig) (*Index, error) {
	if c.AsOf.IsZero() {
		return nil, &api.ArgumentError{Field: "catalogsync.IndexConfig.AsOf", Reason: "is zero"}
	}
	if entries == nil {
		return nil, &api.ArgumentError{Field: "entries", Reason: "is nil"}
	}
	found, err := gather(entries)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
	})
	x := &Index{asOf: c.AsOf, products: make([]product, len(found))}
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

func (x *Index) ready() *Index {
	products := len(x.products)
	x.scratch.New = func() any { return &scratch{cells: make([]cell, products)} }
	return x
}

// at returns the same index, as of another time.
func (x *Index) at(asOf time.Time) *Index {
	return (&Index{asOf: asOf, products: x.products, words: x.words, texts: x.texts, codes: x.codes, attributes: x.attributes}).ready()
}

// Len is the number of products.
func (x *Index) Len() int { return len(x.products) }

// AsOf is when the products were read.
func (x *Index) AsOf() time.Time { return x.asOf }

// Format prints the type only.
func (x *Index) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "catalogsync.Index") }

func gather(entries iter.Seq[Entry]) ([]candidate, error) {
	var found []candidate
	at := map[string]int{}
	shared := map[string]string{} // what many products have
	for e := range entries {
		if e.Product.ID == "" {
			return nil, &api.ArgumentError{Field: "catalogsync.Entry.Product.ID", Reason: "is empty"}
		}
		c := newCandidate(e, shared)
		if i, known := at[c.id]; known {
			found[i] = c
			continue
		}
		at[c.id], found = len(found), append(found, c)
	}
	return found, nil
}

// newCandidate copies all strings, which would otherwise keep the answers of the API that
// they were cut from.
func newCandidate(e Entry, shared map[string]string) candidate {
	share := func(text string) string {
		kept, known := shared[text]
		if !known {
			kept = strings.Clone(text)
			shared[kept] = kept
		}
		return kept
	}
	p := e.Product
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
	for kind, ids := range map[string][]string{ofBrand: {p.Brand.ID}, ofIngredient: e.IngredientIDs, ofAllergen: e.AllergenIDs} {
		for _, id := range ids {
			c.attributes = append(c.attributes, share(kind+id))
		}
	}
	return c
}

// short is the length in bytes of a part that people often write together with its
// neighbor, as in B12 and 500mg.
const short = 2

// addText adds a name or a brand: its parts as words, also together with their neighbors if
// they are of one word or short, and the rest of the text from each part on.
func addText(terms, texts *builder, product int, text string, first, other place) {
	var joined strings.Builder
	type start struct {
		at         int
		apart, cut bool // from the part before: never written together, or another word
	}
	var starts []start
	for _, w := range words(text) {
		for i, at := range parts(w.text) {
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
		texts.add(all[s.at:min(rest, s.at+MaxQuery)], product, where)
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
