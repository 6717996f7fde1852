package catalogsync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
)

// The limits of a search. The documentation of SearchOptions repeats them.
const (
	defaultLimit = 10
	maxLimit     = 100
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
	// and allergens. An index without attributes finds nothing: see [Config].Filters.
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

// search implements [Catalog.Search] for this index.
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

// HandlerConfig configures [Catalog.Handler]. The zero value is valid.
type HandlerConfig struct {
	// Permitted returns the brands that the clinic of the request's user may order, for
	// example from a [BrandCache]. Nil shows the products of all brands. It is called for each
	// request, so it should be quick.
	Permitted func(*http.Request) *PermittedBrands
}

// response is the response body: hits or an error.
type response struct {
	Hits       []Hit              `json:"hits"`
	AgeSeconds int64              `json:"age_seconds"`
	Permitted  *responsePermitted `json:"permitted,omitempty"`
	Error      *responseError     `json:"error,omitempty"`
}

type responsePermitted struct {
	AgeSeconds int64 `json:"age_seconds"`
}

type responseError struct {
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
}

// Handler serves GET requests of a search box. It returns the products for the text that the
// user has typed so far. The query has q, and optionally limit, brand_id, ingredient_ids[] and
// allergen_ids[], with the meaning and limits of [SearchOptions]. The response is JSON:
//
//	200 {"hits":[{"product_id":"…","name":"…", … as Hit}],"age_seconds":5}
//	400 {"hits":[],"age_seconds":0,"error":{"field":"q","reason":"is longer than 200 bytes"}}
//	503 the same without a field, before there is an index
//
// If the hits are limited to permitted brands, the response also has
// "permitted":{"age_seconds":60}, the time since these brands were read.
//
// An empty q without another condition finds nothing. The handler does not authenticate
// requests. Put it behind your own sign-in, because its users see everything that the client
// of the copy sees.
func (c *Catalog) Handler(h HandlerConfig) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		var permitted *PermittedBrands
		if h.Permitted != nil {
			permitted = h.Permitted(r)
		}
		status, a := respond(c, r.URL.RawQuery, permitted)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(a) // fails only if the browser has disconnected
	})
}

// respond returns the response to a query.
func respond(c *Catalog, rawQuery string, permitted *PermittedBrands) (status int, a response) {
	o, err := parseQuery(rawQuery)
	o.Permitted = permitted
	var result Result
	if err == nil {
		result, err = c.Search(o)
	}
	var wrong *api.ArgumentError
	switch {
	case errors.As(err, &wrong):
		field := wrong.Field
		if field == "query" {
			field = "q"
		}
		return http.StatusBadRequest, response{Hits: []Hit{}, Error: &responseError{field, wrong.Reason}}
	case err != nil: // ErrNotLoaded
		return http.StatusServiceUnavailable, response{Hits: []Hit{}, Error: &responseError{Reason: "the catalog is not loaded yet"}}
	}
	a = response{Hits: result.Hits, AgeSeconds: int64(result.Age.Seconds())}
	if result.PermittedOnly {
		a.Permitted = &responsePermitted{int64(result.PermittedAge.Seconds())}
	}
	return http.StatusOK, a
}

func parseQuery(rawQuery string) (SearchOptions, error) {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return SearchOptions{}, &api.ArgumentError{Field: "query", Reason: "is not a valid query string"}
	}
	o := SearchOptions{Query: query.Get("q"), BrandID: query.Get("brand_id"), IngredientIDs: query["ingredient_ids[]"], AllergenIDs: query["allergen_ids[]"]}
	if limit := query.Get("limit"); limit != "" {
		if o.Limit, err = strconv.Atoi(limit); err != nil {
			return SearchOptions{}, &api.ArgumentError{Field: "limit", Reason: "must be a number"}
		}
	}
	return o, nil
}

// PermittedBrands are the brands that a clinic may order, as read from the platform at one
// time. They never change and are safe for concurrent use. Get them from a [BrandCache].
//
// The product list contains the products of all brands. Searches find all of them, unless
// [SearchOptions].Permitted limits the results to the brands of a clinic.
type PermittedBrands struct {
	asOf time.Time
	ids  map[string]struct{}
}

// readPermittedBrands reads the brands that a clinic may order.
func readPermittedBrands(ctx context.Context, brands catalog.Brands) (*PermittedBrands, error) {
	if brands == (catalog.Brands{}) {
		return nil, &api.ArgumentError{Field: "brands", Reason: "is empty"}
	}
	p := &PermittedBrands{asOf: time.Now(), ids: map[string]struct{}{}}
	for brand, err := range brands.List(catalog.BrandListOptions{ClinicPermitted: true}).All(ctx) {
		if err != nil {
			return nil, err
		}
		if brand.ID != "" { // "" would permit every product without a brand
			p.ids[brand.ID] = struct{}{}
		}
	}
	return p, nil
}

// permits reports whether the clinic may order a brand.
func (p *PermittedBrands) permits(brandID string) bool {
	_, permitted := p.ids[brandID]
	return permitted
}

// brandAge is the age at which a [BrandCache] reads the brands of a clinic again. The platform
// sends no event if they change.
const brandAge = 24 * time.Hour

// BrandCache caches the permitted brands of any number of clinics for 24 hours. The zero value
// is empty. It is safe for concurrent use.
type BrandCache struct {
	mu      sync.Mutex
	clinics map[string]chan *PermittedBrands // by clinic: contains its brands, or nil before they are read. Empty while a call uses it
}

// Get returns the brands that a clinic may order, at most 24 hours old. If the cache has none,
// Get reads them with brands, the Brands of a client of this clinic. Concurrent callers wait
// for one request.
//
// If Get fails, search without permitted brands. The [Result] then reports that it contains
// products of all brands. The API knows the brands of clinics, not of single practitioners.
//
// API section: GET /catalog/brands (clinic_permitted).
func (c *BrandCache) Get(ctx context.Context, clinicID string, brands catalog.Brands) (*PermittedBrands, error) {
	if clinicID == "" {
		return nil, &api.ArgumentError{Field: "clinicID", Reason: "is empty"}
	}
	clinic := c.clinic(clinicID)
	select {
	case p := <-clinic:
		var err error
		if p == nil || time.Since(p.asOf) > brandAge {
			p, err = readPermittedBrands(ctx, brands)
		}
		clinic <- p
		return p, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// clinic returns the entry of a clinic. Before it adds an entry, it removes expired ones and those of failed
// calls, so that former and unknown clinics use no memory.
func (c *BrandCache) clinic(id string) chan *PermittedBrands {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clinics[id]; known != nil {
		return known
	}
	for other, clinic := range c.clinics {
		select {
		case p := <-clinic:
			if p == nil || time.Since(p.asOf) > brandAge {
				delete(c.clinics, other)
			}
			clinic <- p
		default: // in use by a call
		}
	}
	if c.clinics == nil {
		c.clinics = map[string]chan *PermittedBrands{}
	}
	c.clinics[id] = make(chan *PermittedBrands, 1)
	c.clinics[id] <- nil
	return c.clinics[id]
}
