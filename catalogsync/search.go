package catalogsync

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

// The limits of a search. The documentation of SearchOptions repeats them.
const (
	defaultLimit = 10
	maxLimit     = 100
	maxQuery     = 200
	maxWords     = 16
	maxFilters   = 32
)

// SearchOptions are the conditions of a search. A product must meet all of them. A search
// without any condition finds nothing.
type SearchOptions struct {
	// Query is the text typed so far: words of a product's name and brand, or their
	// beginnings, in any order, or the beginning of a SKU or UPC. Case, accents, punctuation
	// and spaces within a name do not matter: omega3 finds Omega 3, 5000 finds 5,000, and the
	// word and finds an & or + between two words.
	// UPC-A, EAN-13 and GTIN-14 find each other, because codes of 8 to 14 digits match without
	// their leading zeros. Query may be empty if there is another condition. It may have at
	// most 200 bytes and 16 words.
	Query string

	// Limit is the maximum number of hits, at most 100. 0 means 10.
	Limit int

	// BrandID limits the hits to the products of a brand. Empty means all brands.
	BrandID string

	// IngredientIDs and AllergenIDs limit the hits to products with all of these ingredients
	// and allergens. An index without attributes finds nothing: see [SyncerConfig].Filters.
	// Both together may have at most 32 ids.
	IngredientIDs []string
	AllergenIDs   []string

	// Permitted limits the hits to products of brands that a clinic may order. Nil means all
	// brands. It does not count as a condition of its own.
	Permitted *PermittedBrands
}

// Hit is a product found by a search. It has the fields of the index, enough for a list of
// results. Read the product itself from the API.
type Hit struct {
	ProductID string         `json:"product_id"`
	Name      string         `json:"name"`
	Status    catalog.Status `json:"status"`
	BrandID   string         `json:"brand_id"`
	Brand     string         `json:"brand"` // its name

	// VariantID, SKU, UPC and VariantStatus describe the primary variant. If only a SKU or UPC
	// matches the query, and the name and brand do not, they describe the variant with that
	// code. They are empty if the product has no variant.
	VariantID     string         `json:"variant_id"`
	SKU           string         `json:"sku"`
	UPC           string         `json:"upc"`
	VariantStatus catalog.Status `json:"variant_status"`
}

// Result is the result of a search.
type Result struct {
	// Hits are sorted, best first:
	//
	//   - a whole SKU or UPC
	//   - words at the start of the name, then in the name, then in the brand
	//   - the beginning of a SKU or UPC
	//   - words with a typing error
	//
	// A whole word comes before the beginning of a word. Among equal hits, the shorter name
	// comes first.
	Hits []Hit

	// Age is the time since the walk of the indexed products began.
	Age time.Duration

	// PermittedOnly reports whether the hits are limited to brands that a clinic may order:
	// see [SearchOptions].Permitted. PermittedAge is the time since these brands were read. If
	// PermittedOnly is false, the clinic may not be allowed to order some of the hits.
	PermittedOnly bool
	PermittedAge  time.Duration
}

// The costs of a hit, in addition to the places of its words. Hits are sorted by cost.
const (
	costLonger = 1 // for a term longer than the typed text
	costWords  = 1 // puts a whole code before all words
	costCode   = 128
	costTypo   = 256
)

const minTypo = 4 // minimum length of a word with a typing error

// search implements [Searcher.Search] for this index.
func (x *index) search(o SearchOptions) (Result, error) {
	typed, err := o.parse()
	if err != nil {
		return Result{}, err
	}
	best := ranking{limit: cmp.Or(o.Limit, defaultLimit)}
	if o.Permitted != nil {
		best.permits = func(product uint32) bool { return o.Permitted.permits(x.products[product].brandID) }
	}
	filters := x.filters(o)
	codes, strict := typedCodes(typed), x.strict(typed)
	switch {
	case len(typed) > 0:
		x.match(strict, filters, costWords, &best)
		if len(codes) > 0 {
			x.match([][]span{x.coded(codes)}, filters, 0, &best)
		}
		if len(best.found) < best.limit && slices.ContainsFunc(typed, forgiven) {
			x.match(x.tolerant(typed), filters, costWords, &best)
		}
	default:
		x.match(nil, filters, 0, &best)
	}
	result := Result{Hits: make([]Hit, len(best.found)), Age: time.Since(x.asOf)}
	if o.Permitted != nil {
		result.PermittedOnly, result.PermittedAge = true, time.Since(o.Permitted.asOf)
	}
	for i, found := range best.found {
		p := &x.products[found.product]
		coded := p.variant(codes)
		if coded > 0 && named(strict, found.product) { // magnesium must not select the variant MAGNESIUM-240
			coded = 0
		}
		result.Hits[i] = p.hit(coded)
	}
	return result, nil
}

// parse returns the words of the query.
func (o SearchOptions) parse() ([]word, error) {
	if o.Limit < 0 || o.Limit > maxLimit {
		return nil, &api.ArgumentError{Field: "limit", Reason: fmt.Sprintf("must be from 0 to %d", maxLimit)}
	}
	if len(o.Query) > maxQuery {
		return nil, &api.ArgumentError{Field: "query", Reason: fmt.Sprintf("is longer than %d bytes", maxQuery)}
	}
	if !utf8.ValidString(o.Query) {
		return nil, &api.ArgumentError{Field: "query", Reason: "is not UTF-8"}
	}
	if len(o.IngredientIDs)+len(o.AllergenIDs) > maxFilters {
		return nil, &api.ArgumentError{Field: "filters", Reason: fmt.Sprintf("are more than %d", maxFilters)}
	}
	typed := words(o.Query)
	if len(typed) > maxWords {
		return nil, &api.ArgumentError{Field: "query", Reason: fmt.Sprintf("has more than %d words", maxWords)}
	}
	return typed, nil
}

// strict returns the postings of each typed word, without typing errors.
func (x *index) strict(typed []word) (all [][]span) {
	for i, w := range typed {
		spans := append(x.words.exact(w.text), x.texts.beginning(w.text, costLonger, costLonger)...)
		if i > 0 { // omega 3 finds omega3
			spans = append(spans, x.texts.beginning(typed[i-1].text+w.text, costLonger, costLonger)...)
		}
		all = append(all, spans)
	}
	return all
}

// coded returns the products with a code that begins with one of codes.
func (x *index) coded(codes []string) (spans []span) {
	for _, code := range codes {
		spans = append(spans, x.codes.beginning(code, 0, costCode)...)
	}
	return spans
}

// tolerant returns the postings of each typed word with at most one typing error.
func (x *index) tolerant(typed []word) [][]span {
	all := x.strict(typed)
	for i, w := range typed {
		if forgiven(w) {
			all[i] = append(all[i], x.words.similar(w.text, costTypo)...)
		}
	}
	return all
}

// forgiven reports whether a word may have a typing error. Only the letters a to z qualify,
// because oneEdit compares bytes.
func forgiven(w word) bool {
	return len(w.text) >= minTypo && !strings.ContainsFunc(w.text, func(r rune) bool { return r < 'a' || r > 'z' })
}

func (x *index) filters(o SearchOptions) (all [][]span) {
	if o.BrandID != "" {
		all = append(all, x.attributes.exact(ofBrand+o.BrandID))
	}
	for _, id := range o.IngredientIDs {
		all = append(all, x.attributes.exact(ofIngredient+id))
	}
	for _, id := range o.AllergenIDs {
		all = append(all, x.attributes.exact(ofAllergen+id))
	}
	return all
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

// match ranks the products that have a posting for each requirement. The requirement with the
// fewest postings comes first, because only its products are touched.
func (x *index) match(typed, filters [][]span, cost uint16, best *ranking) {
	required := slices.Concat(typed, filters)
	slices.SortStableFunc(required, func(a, b []span) int { return cmp.Compare(size(a), size(b)) })
	s, _ := x.scratch.Get().(*scratch) // the pool contains nothing else
	defer x.scratch.Put(s)
	for number, spans := range required {
		s.meet(uint8(number), spans)
	}
	for _, product := range s.touched {
		if c := s.cells[product]; int(c.met) == len(required) {
			best.add(ranked{c.cost + cost, product})
		}
		s.cells[product] = cell{}
	}
	s.touched = s.touched[:0]
}

func size(spans []span) (n int) {
	for _, s := range spans {
		n += len(s.postings)
	}
	return n
}

// meet marks the products that met all earlier requirements and are in one of the spans. It
// adds the cost of the cheapest posting.
func (s *scratch) meet(number uint8, spans []span) {
	for _, span := range spans {
		for _, posting := range span.postings {
			c, cost := &s.cells[posting>>2], placeCost[posting&3]+span.cost
			switch {
			case c.met == number:
				c.met, c.cost, c.last = number+1, c.cost+cost, cost
				if number == 0 {
					s.touched = append(s.touched, posting>>2)
				}
			case c.met == number+1 && cost < c.last:
				c.cost, c.last = c.cost-c.last+cost, cost
			}
		}
	}
}

// ranked is a product with its cost.
type ranked struct {
	cost    uint16
	product uint32
}

func (r ranked) compare(other ranked) int {
	return cmp.Or(cmp.Compare(r.cost, other.cost), cmp.Compare(r.product, other.product))
}

// ranking contains the best products, in order.
type ranking struct {
	limit   int
	permits func(product uint32) bool // nil for all of them
	found   []ranked
}

// add adds a product if it is among the best, or replaces its entry with a cheaper one.
func (r *ranking) add(one ranked) {
	if len(r.found) == r.limit && one.compare(r.found[r.limit-1]) >= 0 {
		return
	}
	if r.permits != nil && !r.permits(one.product) { // last, because this lookup is slower than the checks above
		return
	}
	if has := slices.IndexFunc(r.found, func(other ranked) bool { return other.product == one.product }); has >= 0 {
		if r.found[has].cost <= one.cost {
			return
		}
		r.found = slices.Delete(r.found, has, has+1)
	}
	at, _ := slices.BinarySearchFunc(r.found, one, ranked.compare)
	r.found = slices.Insert(r.found, at, one)
	r.found = r.found[:min(len(r.found), r.limit)]
}

// named reports whether a product matches each typed word.
func named(strict [][]span, product uint32) bool {
	return !slices.ContainsFunc(strict, func(word []span) bool {
		return !slices.ContainsFunc(word, func(s span) bool {
			return slices.ContainsFunc(s.postings, func(posting uint32) bool { return posting>>2 == product })
		})
	})
}

// hit returns the product with the variant at an index.
func (p *product) hit(variant int) Hit {
	h := Hit{ProductID: p.id, Name: p.name, Status: p.status, BrandID: p.brandID, Brand: p.brand}
	if len(p.variants) > 0 {
		v := p.variants[variant]
		h.VariantID, h.SKU, h.UPC, h.VariantStatus = v.id, v.sku, v.upc, v.status
	}
	return h
}

// variant returns the index of the first variant with one of codes, or 0 for the primary
// variant.
func (p *product) variant(codes []string) int {
	return max(0, slices.IndexFunc(p.variants, func(v variant) bool { return v.matches(codes) }))
}

// matches reports whether a code of the variant begins with one of codes.
func (v variant) matches(codes []string) bool {
	if len(codes) == 0 {
		return false
	}
	for _, text := range []string{v.sku, v.upc, v.supplierSKU} {
		for _, term := range codeTerms(text) {
			if slices.ContainsFunc(codes, func(code string) bool { return strings.HasPrefix(term, code) }) {
				return true
			}
		}
	}
	return false
}
