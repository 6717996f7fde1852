package catalogsync_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary"
	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogtest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// entry returns a product of the given brand with one variant.
func entry(name, brand, sku, upc string) catalogsync.Record {
	return catalogsync.Record{Product: catalog.Product{
		ID: name, Name: name, Brand: catalog.BrandSummary{ID: brand, Name: brand, Prefix: "P" + brand[:2]},
		PrimaryVariant: &catalog.Variant{ID: "v-" + name, SKU: sku, UPC: upc},
	}}
}

// newSearcher returns a copy with records. It ignores their presence and times.
func newSearcher(t testing.TB, records ...catalogsync.Record) *catalogsync.Catalog {
	t.Helper()
	return catalogsync.Of(&row{}, records...)
}

func names(t testing.TB, x *catalogsync.Catalog, o catalogsync.SearchOptions) (found []string) {
	t.Helper()
	result, err := x.Search(o)
	require.NoError(t, err)
	for _, hit := range result.Hits {
		found = append(found, hit.Name)
	}
	return found
}

func TestSearchFindsProducts(t *testing.T) {
	t.Parallel()
	x := newSearcher(t,
		entry("Magnesium Glycinate", "Kelp", "KLP-1001-90", "012345678905"),
		entry("Calm Magnesium Powder", "Kelp", "KLP-1002-30", "012345678912"),
		entry("Manganese", "Kelp", "KLP-1003-60", "055555555555"),
		entry("Zinc 1000", "Magnum Labs", "MGL-2001-60", "099999999990"),
		entry("Vitamin B-12", "Äpfel & Söhne", "APF-0007-1", ""),
		entry("Omega3 Açaí", "Crème", "CRE-12-5", ""),
		entry("α-Lipoic Acid", "Nature's", "NAT-77-5", ""),
		entry("Iron", "Nature's", "", ""),
		entry("Ironwood", "Nature's", "", ""),
		entry("Женьшень", "Nature's", "", ""),
	)
	for query, want := range map[string][]string{
		"magn":                  {"Magnesium Glycinate", "Calm Magnesium Powder", "Zinc 1000", "Manganese"}, // start of the name, a word, the brand, an error
		"MAGN gly":              {"Magnesium Glycinate"},
		"gly, magn":             {"Magnesium Glycinate"},
		"kelp powder":           {"Calm Magnesium Powder"},
		"iron":                  {"Iron", "Ironwood"}, // a whole word first
		"magnezium glycinate":   {"Magnesium Glycinate"},
		"agnesium glyc":         {"Magnesium Glycinate"},
		"magnessium glyc":       {"Magnesium Glycinate"},
		"glycinate mangesium":   {"Magnesium Glycinate"},
		"magneisum":             {"Magnesium Glycinate", "Calm Magnesium Powder"},
		"mxgxesium":             nil, // two typing errors
		"zin":                   {"Zinc 1000"},
		"zxn":                   nil, // too short for a typing error
		"zinc 1001":             nil, // a number must match exactly
		"klp-1002-30":           {"Calm Magnesium Powder"},
		"KLP 1002":              {"Calm Magnesium Powder"},
		"klp100230":             {"Calm Magnesium Powder"},
		"1002-3":                {"Calm Magnesium Powder"},
		"012345678905":          {"Magnesium Glycinate"},
		"0 12345 67891 2":       {"Calm Magnesium Powder"},
		"01234":                 {"Magnesium Glycinate", "Calm Magnesium Powder"},
		"b12":                   {"Vitamin B-12"},
		"b 12":                  {"Vitamin B-12"},
		"b-12":                  {"Vitamin B-12"},
		"vitamin b":             {"Vitamin B-12"},
		"apfel sohne":           {"Vitamin B-12"},
		"ÄPFEL":                 {"Vitamin B-12"},
		"a\u0308pfel":           {"Vitamin B-12"},
		"omega-3":               {"Omega3 Açaí"},
		"omega 3 acai":          {"Omega3 Açaí"},
		"creme":                 {"Omega3 Açaí"},
		"alpha lipoic":          {"α-Lipoic Acid"},
		"natures lipoic":        {"α-Lipoic Acid"},
		"женьш":                 {"Женьшень"},
		"magnesium chamomile":   nil,
		"":                      nil,
		" -- &":                 nil,
		"magnesium \x00 powder": {"Calm Magnesium Powder"},
	} {
		assert.Equal(t, want, names(t, x, catalogsync.SearchOptions{Query: query}), "%q", query)
	}
}

func TestSearchAppliesFilters(t *testing.T) {
	t.Parallel()
	a, b := entry("Zinc A", "one", "", ""), entry("Zinc B", "two", "", "")
	a.IngredientIDs, a.AllergenIDs = []string{"zinc", "oil"}, []string{"gluten-free"}
	b.IngredientIDs = []string{"zinc"}
	x := newSearcher(t, a, b)
	for _, test := range []struct {
		o    catalogsync.SearchOptions
		want []string
	}{
		{catalogsync.SearchOptions{Query: "zinc"}, []string{"Zinc A", "Zinc B"}},
		{catalogsync.SearchOptions{Query: "zinc", Limit: 1}, []string{"Zinc A"}},
		{catalogsync.SearchOptions{Query: "zinc", BrandID: "two"}, []string{"Zinc B"}},
		{catalogsync.SearchOptions{Query: "znic", BrandID: "two"}, []string{"Zinc B"}},
		{catalogsync.SearchOptions{BrandID: "two"}, []string{"Zinc B"}},
		{catalogsync.SearchOptions{BrandID: "tw"}, nil},
		{catalogsync.SearchOptions{IngredientIDs: []string{"zinc"}}, []string{"Zinc A", "Zinc B"}},
		{catalogsync.SearchOptions{IngredientIDs: []string{"zinc", "oil"}}, []string{"Zinc A"}},
		{catalogsync.SearchOptions{IngredientIDs: []string{"zinc"}, AllergenIDs: []string{"gluten-free"}}, []string{"Zinc A"}},
		{catalogsync.SearchOptions{AllergenIDs: []string{"zinc"}}, nil},
		{catalogsync.SearchOptions{Query: "zinc", AllergenIDs: []string{"nut-free"}}, nil},
	} {
		assert.Equal(t, test.want, names(t, x, test.o), "%+v", test.o)
	}
}

func TestSearchShowsVariantOfCode(t *testing.T) {
	t.Parallel()
	e := entry("Zinc", "one", "ONE-1-60", "111")
	e.Product.Variants = []catalog.Variant{{ID: "large", SKU: "ONE-1-120", UPC: "222222", Status: catalog.StatusDiscontinued}, {ID: "v-Zinc", SKU: "ONE-1-60"}}
	x := newSearcher(t, e)
	for query, want := range map[string]string{"zinc": "v-Zinc", "one-1": "v-Zinc", "ONE-1-12": "large", "2222": "large"} {
		result, err := x.Search(catalogsync.SearchOptions{Query: query})
		require.NoError(t, err)
		require.Len(t, result.Hits, 1, query)
		assert.Equal(t, want, result.Hits[0].VariantID, query)
	}
}

// If a SKU repeats a word of the name, its variant must not replace the primary variant.
func TestSearchShowsPrimaryVariantOfName(t *testing.T) {
	t.Parallel()
	e := entry("Magnesium Glycinate", "one", "KLP-60", "")
	e.Product.Variants = []catalog.Variant{{ID: "large", SKU: "MAGNESIUM-240", Status: catalog.StatusDiscontinued}, {ID: "only", SKU: "MAGNESIUM", Status: catalog.StatusDiscontinued}}
	x := newSearcher(t, e, entry("Magnesium", "one", "", ""))
	for query, want := range map[string]string{
		"magn": "v-Magnesium Glycinate", "magnesium gly": "v-Magnesium Glycinate", "magnesium": "v-Magnesium Glycinate", "MAGNESIUM-240": "large", "magnesium 2": "large",
	} {
		for _, limit := range []int{1, 10} {
			result, err := x.Search(catalogsync.SearchOptions{Query: query, Limit: limit})
			require.NoError(t, err)
			for _, hit := range result.Hits {
				if hit.Name == "Magnesium Glycinate" {
					assert.Equal(t, want, hit.VariantID, "%q", query)
				}
			}
		}
	}
}

func TestSearchRejectsBadOptions(t *testing.T) {
	t.Parallel()
	x := newSearcher(t)
	for want, o := range map[string]catalogsync.SearchOptions{
		"dispensary: query is longer than 200 bytes": {Query: strings.Repeat("a", 201)},
		"dispensary: query has more than 16 words":   {Query: strings.Repeat("a ", 17)},
		"dispensary: query is not UTF-8":             {Query: "\xff"},
		"dispensary: limit must be from 0 to 100":    {Limit: 101},
		"dispensary: filters are more than 32":       {IngredientIDs: make([]string, 20), AllergenIDs: make([]string, 13)},
	} {
		_, err := x.Search(o)
		require.ErrorIs(t, err, api.ErrArgument)
		assert.EqualError(t, err, want)
	}
	_, err := x.Search(catalogsync.SearchOptions{Limit: -1})
	require.ErrorIs(t, err, api.ErrArgument)
}

// The search must find the wanted product among the first five hits in 98 % of the queries of
// each kind, although thousands of names share their words.
func TestSearchFindsTypedProduct(t *testing.T) {
	t.Parallel()
	testsize.SkipUnderRace(t)
	entries := catalogtest.Products(20_000)
	x := newSearcher(t, entries...)
	asked, missed := map[string]int{}, map[string][]string{}
	for _, q := range catalogtest.Queries(entries, testsize.Of(200, 4_000)) {
		result, err := x.Search(catalogsync.SearchOptions{Query: q.Text, Limit: 5})
		require.NoError(t, err)
		asked[q.Kind]++
		if !slices.ContainsFunc(result.Hits, func(h catalogsync.Hit) bool { return h.ProductID == q.ProductID }) {
			missed[q.Kind] = append(missed[q.Kind], q.Text)
		}
	}
	for kind, n := range asked {
		t.Logf("%s: %d of %d found", kind, n-len(missed[kind]), n)
		assert.LessOrEqual(t, len(missed[kind])*100, n*2, "%s: missed %q", kind, missed[kind])
	}
}

// Concurrent searches must not affect each other or later searches.
func TestConcurrentSearchesAreIndependent(t *testing.T) {
	t.Parallel()
	entries := catalogtest.Products(500)
	x := newSearcher(t, entries...)
	queries := catalogtest.Queries(entries, 40)
	want := make([]string, len(queries))
	for i, q := range queries {
		want[i] = fmt.Sprint(names(t, x, catalogsync.SearchOptions{Query: q.Text}))
	}
	for worker := range 4 {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for i, q := range queries {
				assert.Equal(t, want[i], fmt.Sprint(names(t, x, catalogsync.SearchOptions{Query: q.Text})))
			}
		})
	}
}

// A search must not panic, and its hits must match the conditions.
func FuzzSearch(f *testing.F) {
	entries := append(catalogtest.Products(50), entry("Ä-1 ’x' Ωß", "ﬁ", "--", "é"))
	x := newSearcher(f, entries...)
	for _, seed := range []string{"", "magn", "AAA-0000", "b-12", "ÀΩß’", "\xff", "a\u0301", "5,0", "5,000,", ",000", "B₁₂", "０，０００", "维生素c", "2.5 10 000", "00036000291452", strings.Repeat("a ", 16), strings.Repeat("é", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		result, err := x.Search(catalogsync.SearchOptions{Query: query, Limit: 3, BrandID: "brand-0"})
		if err != nil {
			require.ErrorIs(t, err, api.ErrArgument)
			return
		}
		assert.LessOrEqual(t, len(result.Hits), 3)
		for _, hit := range result.Hits {
			assert.Equal(t, "brand-0", hit.BrandID)
		}
	})
}

func named(t testing.TB, names ...string) *catalogsync.Catalog {
	t.Helper()
	var entries []catalogsync.Record
	for _, name := range names {
		entries = append(entries, entry(name, "Kelp", "", ""))
	}
	return newSearcher(t, entries...)
}

// Each spelling of a name, and each beginning of it, must find the product.
func TestSearchFindsOtherSpellings(t *testing.T) {
	t.Parallel()
	spellings := map[string][]string{
		"Vitamin D3 5,000 IU":           {"vitamin d3 5000", "d3 5,000", "5000 iu", "5000iu", "vitamind3", "d 3 5000", "d3 5 000"},
		"Vitamin D3 1000IU":             {"1000 iu", "1,000 iu", "d3 1 000"},
		"Vitamin C1000":                 {"vitamin c 1000", "c1000", "vitamin 1,000"},
		"Biotin 10 000 mcg":             {"biotin 10000", "biotin 10,000", "10 000 mcg", "10000mcg"},
		"Biotin 10\u00a0000 mcg":        {"biotin 10000"},
		"Omega 3 Fish Oil":              {"omega3", "omega-3", "omega 3", "fishoil", "omega3fishoil"},
		"Omega-3 1,200 mg":              {"omega3 1200", "omega 3 1,200"},
		"Omega3 1200mg":                 {"omega 3 1,200 mg", "omega-3", "3"},
		"Vitamin B 12":                  {"b12", "b-12", "vitamin b12"},
		"Vitamin B₁₂ Methylcobalamin":   {"b12", "b 12", "b₁₂"},
		"CO² Rosemary Extract":          {"co2", "co 2"},
		"Co Q 10":                       {"coq10", "co q10", "coq 10", "co-q-10"},
		"CoQ10":                         {"co q 10", "coq-10", "co q10", "10"},
		"Vitamin K 2 (MK 7)":            {"k2", "mk7", "vitamin k2 mk-7"},
		"Vitamin K2 MK7":                {"k 2", "mk 7"},
		"Multi Vitamin":                 {"multivitamin", "multi-vitamin"},
		"Multivitamin":                  {"multi vitamin", "multi-vitamin"},
		"ﬁber plus":                     {"fiber", "ﬁber plus"},
		"Ｏmega－３":                       {"omega 3", "omega3", "ｏmega３"},
		"Μαγνήσιο":                      {"μαγνησιο", "ΜΑΓΝΉΣΙΟ"},
		"维生素C 片":                        {"维生素", "生素c", "c片"},
		"Beta-1,3/1,6-D-Glucan":         {"beta 1,3", "1 3 glucan", "beta 1,3/1,6"},
		"Folate 2.5 mg":                 {"2.5", "folate 2.5mg", "2.5 mg"},
		"Quercetin & Bromelain":         {"quercetin and bromelain", "quercetin bromelain", "quercetin & bromelain", "bromelain and quercetin"},
		"Vitamin D3 + K2":               {"vitamin d3 and k2", "d3 + k2", "d3 k2", "d3k2", "vitamin d3+k2"},
		"Calcium＆Magnesium":             {"calcium and magnesium", "calciummagnesium"},
		"Hair, Skin and Nails":          {"hair skin & nails", "skin and nails", "skin nails"},
		"St. John's Wort":               {"st johns wort", "st john\u02BCs wort", "st john’s", "john\u02BBs"},
		"Crème à l'ail":                 {"ail", "l'ail", "lail", "l ail", "creme a l’ail", "creme a l ail"},
		"Huile d’onagre":                {"onagre", "d'onagre", "donagre", "huile d onagre"},
		"Qu'il 10'000":                  {"il", "quil", "qu'il", "10000", "10'000", "10,000"},
		"Probiotic 1,000,000,000 CFU’s": {"1000000000", "1,000,000,000 cfus"},
	}
	for name, typed := range spellings {
		x := named(t, name, "Zinc", "Nettle Leaf")
		for _, query := range typed {
			for end := range query {
				if end > 0 && len(strings.Trim(query[:end], " -,/.")) > 0 {
					assert.Contains(t, names(t, x, catalogsync.SearchOptions{Query: query[:end]}), name, "%q", query[:end])
				}
			}
			assert.Contains(t, names(t, x, catalogsync.SearchOptions{Query: query}), name, "%q", query)
		}
	}
}

func TestSearchKeepsNumbersApart(t *testing.T) {
	t.Parallel()
	x := named(t, "Iron 25 mg", "Iron 2.5 mg", "Iron 1/3", "Zinc 5,0", "Zinc 5,0000")
	assert.Equal(t, []string{"Iron 25 mg"}, names(t, x, catalogsync.SearchOptions{Query: "iron 25"}))
	assert.Equal(t, "Iron 2.5 mg", names(t, x, catalogsync.SearchOptions{Query: "iron 2.5"})[0])
	for _, query := range []string{"13", "50", "50000"} {
		assert.Empty(t, names(t, x, catalogsync.SearchOptions{Query: query}), query)
	}
}

// The word and stays a word: a product without it must not match.
func TestSearchRequiresAnd(t *testing.T) {
	t.Parallel()
	x := named(t, "Andrographis", "Magnesium & Zinc", "Skin Balm", "B + ", "+ C")
	assert.Equal(t, []string{"Andrographis", "Magnesium & Zinc"}, names(t, x, catalogsync.SearchOptions{Query: "and"}))
	assert.Equal(t, []string{"Andrographis"}, names(t, x, catalogsync.SearchOptions{Query: "andro"}))
	for _, query := range []string{"skin and", "magnesium and skin", "b and", "and c", "john s"} {
		assert.Empty(t, names(t, x, catalogsync.SearchOptions{Query: query}), query)
	}
}

// All spellings of a whole word must have the same rank, so that the length of the name
// decides.
func TestSearchRanksSpellingsAlike(t *testing.T) {
	t.Parallel()
	x := named(t, "Vitamin B12 Plus", "Vitamin B-12", "Vitamin B 12 Max", "Vitamin B₁₂ Mini", "Vitamin B120")
	assert.Equal(t, []string{"Vitamin B-12", "Vitamin B 12 Max", "Vitamin B12 Plus", "Vitamin B₁₂ Mini", "Vitamin B120"},
		names(t, x, catalogsync.SearchOptions{Query: "b12"}))
}

// The memory for a long name must be proportional to its length.
func TestIndexAcceptsLongNames(t *testing.T) {
	t.Parallel()
	x := named(t, strings.Repeat("b c ", 50_000), strings.Repeat("a", 200_000))
	assert.Len(t, names(t, x, catalogsync.SearchOptions{Query: strings.Repeat("bc", 100)}), 1)
	assert.Len(t, names(t, x, catalogsync.SearchOptions{Query: strings.Repeat("a", 200)}), 1)
}

func TestSearchFindsBarcodes(t *testing.T) {
	t.Parallel()
	forms := map[string][]string{
		"UPC-A":  {"036000291452", "0036000291452", "00036000291452", "36000291452", "0 36000 29145 2", "0-36000-29145-2", "００３６０００２９１４５２"},
		"EAN-8":  {"00123457", "0000000123457", "00000000123457", "0012 3457"},
		"EAN-13": {"4006381333931", "04006381333931", "4 006381 333931"},
	}
	for kind, codes := range forms {
		for _, stored := range codes {
			x := newSearcher(t, entry("Zinc", "Kelp", "ZN-30", stored), entry("Iron", "Kelp", "IR-30", "078000113464"))
			for _, typed := range codes {
				assert.Equal(t, []string{"Zinc"}, names(t, x, catalogsync.SearchOptions{Query: typed}), "%s: typed %s for stored %s", kind, typed, stored)
			}
		}
	}
}

func TestSearchKeepsZerosOfOtherCodes(t *testing.T) {
	t.Parallel()
	x := newSearcher(t, entry("Zinc", "Kelp", "00-4711", ""), entry("Iron", "Kelp", "A004711999", ""), entry("Kelp Leaf", "Kelp", "", "00000000"), entry("Nettle", "Kelp", "", "123456789012345678"))
	for query, want := range map[string][]string{
		"004711": {"Zinc"}, "4711": {"Zinc"}, "0004711": nil, "000000000000": nil, "00000000": {"Kelp Leaf"}, "00123456789012345678": nil,
	} {
		assert.Equal(t, want, names(t, x, catalogsync.SearchOptions{Query: query}), query)
	}
}

// BenchmarkSearch types queries letter by letter. For comparison, it also scans every name for
// every letter, without typing errors and accents. It reports the median and the 99th
// percentile.
func BenchmarkSearch(b *testing.B) {
	for _, n := range []int{20_000, 200_000} {
		entries := catalogtest.Products(n)
		typed := catalogtest.Typed(catalogtest.Queries(entries, 200))
		b.Run(fmt.Sprintf("%d products/linear scan", n), func(b *testing.B) {
			texts := make([]string, n)
			for i, e := range entries {
				texts[i] = strings.ToLower(e.Product.Name + " " + e.Product.Brand.Name + " " + e.Product.Variants[0].SKU)
			}
			catalogtest.Measure(b, typed, func(query string) { scan(texts, strings.Fields(strings.ToLower(query))) })
		})
		b.Run(fmt.Sprintf("%d products/Index", n), func(b *testing.B) {
			x := newSearcher(b, entries...)
			catalogtest.Measure(b, typed, func(query string) {
				if _, err := x.Search(catalogsync.SearchOptions{Query: query}); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func scan(texts, words []string) (found int) {
	for _, text := range texts {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
			if found++; found == 10 {
				return found
			}
		}
	}
	return found
}

// BenchmarkSnapshots saves and loads snapshots.
func BenchmarkSnapshots(b *testing.B) {
	for _, n := range []int{20_000, 200_000} {
		entries := catalogtest.Products(n)
		b.Run(fmt.Sprintf("%d products", n), func(b *testing.B) { catalogsync.MeasureSnapshots(b, catalogtest.InUse, entries) })
	}
}

func TestHandlerServesSearches(t *testing.T) {
	t.Parallel()
	c, err := catalogsync.New(catalogsync.Config{Snapshots: &row{}})
	require.NoError(t, err)
	get := func(query url.Values) (int, string) {
		w := httptest.NewRecorder()
		c.Handler(catalogsync.HandlerConfig{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?"+query.Encode(), nil))
		assert.Equal(t, http.Header{
			"Content-Type": {"application/json"}, "Cache-Control": {"no-store"},
			"Cross-Origin-Resource-Policy": {"same-origin"}, "X-Content-Type-Options": {"nosniff"},
		}, w.Header())
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	status, body := get(url.Values{"q": {"zinc"}})
	assert.Equal(t, http.StatusServiceUnavailable, status)
	assert.JSONEq(t, `{"hits":[],"age_seconds":0,"error":{"reason":"the catalog is not loaded yet"}}`, body)

	c = newSearcher(t, entry("Zinc A", "one", "ONE-1", "1"), entry("Zinc B", "two", "TWO-1", "2"))
	status, body = get(url.Values{"q": {"zinc"}, "limit": {"1"}, "brand_id": {"two"}})
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"hits":[{"product_id":"Zinc B","name":"Zinc B","status":"","brand_id":"two","brand":"two",
		"variant_id":"v-Zinc B","sku":"TWO-1","upc":"2","variant_status":""}],"age_seconds":0}`, body)
	for _, empty := range []url.Values{{}, {"q": {" "}}, {"q": {"nothing"}}, {"q": {"zinc"}, "ingredient_ids[]": {"x"}}, {"q": {"zinc"}, "allergen_ids[]": {"x"}}} {
		status, body = get(empty)
		assert.Equal(t, http.StatusOK, status)
		assert.JSONEq(t, `{"hits":[],"age_seconds":0}`, body)
	}
	for want, query := range map[string]url.Values{
		`{"field":"q","reason":"is longer than 200 bytes"}`:  {"q": {strings.Repeat("a", 201)}},
		`{"field":"limit","reason":"must be from 0 to 100"}`: {"limit": {"1000"}},
		`{"field":"limit","reason":"must be a number"}`:      {"limit": {"many"}},
	} {
		status, body = get(query)
		assert.Equal(t, http.StatusBadRequest, status)
		var a struct{ Error json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(body), &a))
		assert.JSONEq(t, want, string(a.Error))
	}
	w := httptest.NewRecorder()
	c.Handler(catalogsync.HandlerConfig{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?q=%zz", nil))
	assert.Equal(t, http.StatusBadRequest, w.Code)
	w = httptest.NewRecorder()
	c.Handler(catalogsync.HandlerConfig{}).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/?q=zinc", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// twoClinics returns a platform with two clinics and a client of each. Only the second clinic
// may order one of the brands.
func twoClinics(t *testing.T) (platform *dispensarytest.Server, clients []*dispensary.Client) {
	t.Helper()
	platform = dispensarytest.New(t, dispensarytest.WithInMemory(), dispensarytest.WithTuning(dispensarytest.Tuning{WorldSize: model.WorldSize{Clinics: 2, Patients: 1, Plans: 1, Orders: 1}}))
	return platform, clientsOf(platform)
}

// clientsOf returns a client of each clinic, with a new token.
func clientsOf(platform *dispensarytest.Server) (clients []*dispensary.Client) {
	for _, clinic := range platform.Clinics.All() {
		at := slices.IndexFunc(platform.Users(), func(u model.User) bool { return u.ClinicID == clinic.ID })
		clients = append(clients, platform.Client(platform.Users()[at]))
	}
	return clients
}

// With permitted brands, a search must find the same products as the platform's own search.
func TestPermittedBrandsMatchPlatformSearch(t *testing.T) {
	t.Parallel()
	platform, clients := twoClinics(t)
	c, err := catalogsync.New(catalogsync.Config{Catalog: clients[0].Catalog})
	require.NoError(t, err)
	mustSync(t, c)
	var cache catalogsync.BrandCache
	hidden := 0
	for n, client := range clients {
		permitted, err := cache.Get(t.Context(), platform.Clinics.All()[n].ID, client.Catalog.Brands)
		require.NoError(t, err)
		var want []string
		for product, err := range client.Catalog.Products.Search(catalog.ProductSearchOptions{}).All(t.Context()) {
			require.NoError(t, err)
			want = append(want, product.ID)
		}
		for _, product := range platform.Products.All() {
			for _, o := range []catalogsync.SearchOptions{{Query: product.Name}, {BrandID: product.BrandID}} {
				o.Limit = 100
				found := func(r catalogsync.Result, err error) bool {
					require.NoError(t, err)
					assert.Equal(t, o.Permitted != nil, r.PermittedOnly)
					return slices.ContainsFunc(r.Hits, func(h catalogsync.Hit) bool { return h.ProductID == product.ID })
				}
				assert.True(t, found(c.Search(o)), "all brands by default")
				o.Permitted = permitted
				assert.Equal(t, slices.Contains(want, product.ID), found(c.Search(o)), product.Name)
			}
			if !slices.Contains(want, product.ID) {
				hidden++
			}
		}
	}
	assert.Positive(t, hidden)
	assert.Less(t, hidden, len(platform.Products.All()), "hidden from one clinic only")
}

func TestBrandCacheExpiresDaily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform, clients := twoClinics(t)
		var cache catalogsync.BrandCache
		get := func(clinic int) (*catalogsync.PermittedBrands, error) {
			return cache.Get(t.Context(), platform.Clinics.All()[clinic].ID, clients[clinic].Catalog.Brands)
		}
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				_, err := get(i % 2)
				assert.NoError(t, err)
			})
		}
		callers.Wait()
		assert.Len(t, platform.Journal.Requests("brands.list"), 2, "one request per clinic")

		time.Sleep(24 * time.Hour)
		first, err := get(0)
		require.NoError(t, err)
		assert.Len(t, platform.Journal.Requests("brands.list"), 2, "still valid after 24 hours")
		result, err := newSearcher(t).Search(catalogsync.SearchOptions{Query: "zinc", Permitted: first})
		require.NoError(t, err)
		assert.Equal(t, 24*time.Hour, result.PermittedAge)
		time.Sleep(time.Second)
		clients = clientsOf(platform)
		platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusForbidden, Operation: "brands.list", Times: 1})
		_, err = get(0)
		var rejected *api.Error
		require.ErrorAs(t, err, &rejected)
		second, err := get(0)
		require.NoError(t, err, "retry after a failure")
		assert.NotSame(t, first, second)
		assert.Len(t, platform.Journal.Requests("brands.list"), 4)
	})
}

// A caller that waits for the request of another caller must stop at the end of its context.
func TestBrandCacheHonorsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		platform, clients := twoClinics(t)
		platform.Fault(model.Fault{Effect: model.EffectLatency, Delay: 20 * time.Second, Operation: "brands.list"})
		var cache catalogsync.BrandCache
		first := make(chan error, 1)
		go func() {
			_, err := cache.Get(t.Context(), "clinic", clients[0].Catalog.Brands)
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := cache.Get(ctx, "clinic", clients[0].Catalog.Brands)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, <-first)
	})
}

func TestBrandCacheRejectsBadArguments(t *testing.T) {
	t.Parallel()
	_, clients := twoClinics(t)
	var cache catalogsync.BrandCache
	_, err := cache.Get(t.Context(), "", clients[0].Catalog.Brands)
	assert.EqualError(t, err, "dispensary: clinicID is empty")
	_, err = cache.Get(t.Context(), "clinic", catalog.Brands{})
	assert.EqualError(t, err, "dispensary: brands is empty")
}

func TestHandlerAppliesPermittedBrands(t *testing.T) {
	t.Parallel()
	platform, clients := twoClinics(t)
	var cache catalogsync.BrandCache
	permitted, err := cache.Get(t.Context(), platform.Clinics.All()[0].ID, clients[0].Catalog.Brands)
	require.NoError(t, err)
	handler := newSearcher(t, entry("Zinc", "one", "", "")).Handler(catalogsync.HandlerConfig{Permitted: func(r *http.Request) *catalogsync.PermittedBrands {
		if r.Header.Get("Clinic") == "" {
			return nil
		}
		return permitted
	}})
	for clinic, want := range map[string]string{"": `"hits":[{"product_id":"Zinc",`, "first": `{"hits":[],"age_seconds":0,"permitted":{"age_seconds":0}}`} {
		r, w := httptest.NewRequest(http.MethodGet, "/?q=zinc", nil), httptest.NewRecorder()
		r.Header.Set("Clinic", clinic)
		handler.ServeHTTP(w, r)
		assert.Contains(t, w.Body.String(), want)
		assert.Equal(t, clinic != "", strings.Contains(w.Body.String(), "permitted"))
	}
}
