package catalogsync_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogtest"
	"github.com/dispensary-go/dispensary/internal/testkit/testsize"
)

// entry returns a product of the given brand with one variant.
func entry(name, brand, sku, upc string) catalogstore.Record {
	return catalogstore.Record{Product: catalog.Product{
		ID: name, Name: name, Brand: catalog.BrandSummary{ID: brand, Name: brand, Prefix: "P" + brand[:2]},
		PrimaryVariant: &catalog.Variant{ID: "v-" + name, SKU: sku, UPC: upc},
	}}
}

// storeOf returns a store with records. It ignores their presence and times.
func storeOf(t testing.TB, records ...catalogstore.Record) catalogstore.Store {
	t.Helper()
	store, attributes := catalogsync.NewMemoryStore(), map[string]catalogstore.Attributes{}
	walk := catalogstore.Walk{Generation: 1, StartedAt: time.Now()}
	require.NoError(t, store.Begin(t.Context(), walk))
	walk.Page = 1
	_, err := store.SavePage(t.Context(), walk, nil)
	require.NoError(t, err)
	for _, r := range records {
		_, err := store.SaveDetails(t.Context(), walk.StartedAt, r.Product)
		require.NoError(t, err)
		attributes[r.Product.ID] = r.Attributes
	}
	require.NoError(t, store.SaveAttributes(t.Context(), attributes))
	return store
}

// loaded returns a searcher with the index of a store.
func loaded(t testing.TB, store catalogstore.Store) *catalogsync.Searcher {
	t.Helper()
	var x catalogsync.Searcher
	require.NoError(t, x.Load(t.Context(), store))
	return &x
}

func newSearcher(t testing.TB, records ...catalogstore.Record) *catalogsync.Searcher {
	t.Helper()
	return loaded(t, storeOf(t, records...))
}

func names(t testing.TB, x *catalogsync.Searcher, o catalogsync.SearchOptions) (found []string) {
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
