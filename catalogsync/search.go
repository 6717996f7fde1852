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

// The limits of a search, which SearchOptions states.
const (
	defaultLimit = 10
	maxLimit     = 100
	maxQuery     = 200
	maxWords     = 16
	maxFilters   = 32
)

// SearchOptions says what is looked for. All conditions apply together. Without any,
// nothing is found.
type SearchOptions struct {
	// Query is the text typed so far: the words of a product's name and brand, or their
	// beginnings, in any order, or a SKU or UPC or a beginning of it. Upper case, accents,
	// punctuation, and spaces within a name make no difference: omega3 finds Omega 3, and
	// 5000 finds 5,000. UPC-A, EAN-13 and GTIN-14 find each other: codes of 8 to 14 digits
	// match without their leading zeros. Query may be empty if there is another condition.
	// At most 200 bytes and 16 words.
	Query string

	// Limit is how many hits are wanted, at most 100; 0 means 10.
	Limit int

	// BrandID keeps the products of a brand.
	BrandID string

	// IngredientIDs and AllergenIDs keep the products that have all of them. An index
	// that does not know them finds nothing: see [SyncerConfig]. Together at most
	// 32.
	IngredientIDs []string
	AllergenIDs   []string

	// Permitted keeps the products of the brands that a clinic may order. Nil shows those
	// of all brands. It is no condition by itself.
	Permitted *PermittedBrands
}

// Hit is a product that was found. It is what an index has to show in a list; the product
// itself has to be read from the API.
type Hit struct {
	ProductID string         `json:"product_id"`
	Name      string         `json:"name"`
	Status    catalog.Status `json:"status"`
	BrandID   string         `json:"brand_id"`
	Brand     string         `json:"brand"` // its name

	// VariantID, SKU, UPC and VariantStatus are of the primary variant. If only a SKU or
	// UPC matches the query, and not the name and brand, they are of the variant with that
	// code. Empty if the product has no variant.
	VariantID     string         `json:"variant_id"`
	SKU           string         `json:"sku"`
	UPC           string         `json:"upc"`
	VariantStatus catalog.Status `json:"variant_status"`
}

// Result is what a search found.
type Result struct {
	// Hits are in the order of their rank, the best first: a SKU or UPC as a whole; then
	// those with words at the start of the name, in the name, and in the brand; then the
	// beginning of a SKU or UPC; then those with a typing error. In words, a whole word
	// is before its beginning. Of equals the shorter name is first.
	Hits []Hit

	// Age is how long ago the products were read.
	Age time.Duration

	// PermittedOnly says that the hits were kept to the brands that a clinic may order, as
	// they were read PermittedAge ago: see [SearchOptions].Permitted. Without it some hits
	// may be of brands that a clinic may not order.
	PermittedOnly bool
	PermittedAge  time.Duration
}

// What a hit costs beside the places of its words: hits are in the order of their costs.
const (
	costLonger = 1 // than what was typed
	costWords  = 1 // so that a whole code is first
	costCode   = 128
	costTypo   = 256
)

const minTypo = 4 // letters of a word in which a typing error is forgiven

// search is [Searcher.Search] in this index.
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
		if coded > 0 && named(strict, found.product) { // magnesium, and MAGNESIUM-240 of another variant
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

// strict is what each word matches as it is typed.
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

// tolerant is what each word matches with at most one typing error.
func (x *index) tolerant(typed []word) [][]span {
	all := x.strict(typed)
	for i, w := range typed {
		if forgiven(w) {
			all[i] = append(all[i], x.words.similar(w.text, costTypo)...)
		}
	}
	return all
}

// forgiven says whether a word may have a typing error. In other letters than Latin ones a
// byte is not a letter.
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

// scratch is what one search writes to while it matches.
type scratch struct {
	cells   []cell   // by product; all zero between searches
	touched []uint32 // the products whose cells may be other than zero
}

// cell is how far a product matches.
type cell struct {
	met  uint8  // how many requirements it meets
	cost uint16 // of all of them
	last uint16 // of the last one
}

// match ranks the products that are in some span of each requirement. The one with the
// fewest postings is first, so that the others only look at what it left.
func (x *index) match(typed, filters [][]span, cost uint16, best *ranking) {
	required := slices.Concat(typed, filters)
	slices.SortStableFunc(required, func(a, b []span) int { return cmp.Compare(size(a), size(b)) })
	s, _ := x.scratch.Get().(*scratch) // it holds nothing else
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

// meet marks the products that met all requirements before and are in one of the spans,
// and adds the cost of the cheapest posting.
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

// ranking holds the best products, in order.
type ranking struct {
	limit   int
	permits func(product uint32) bool // nil for all of them
	found   []ranked
}

// add takes a product if it is among the best, once.
func (r *ranking) add(one ranked) {
	if len(r.found) == r.limit && one.compare(r.found[r.limit-1]) >= 0 {
		return
	}
	if r.permits != nil && !r.permits(one.product) { // asked of few: a look-up takes longer than all above
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

// variant returns the index of the first variant with one of codes, or 0, the primary one.
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
