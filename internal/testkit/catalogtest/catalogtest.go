// Package catalogtest generates catalogs of any size, and search queries with the product that
// each must find.
package catalogtest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
)

var (
	substances = strings.Fields(`Magnesium Zinc Selenium Iron Calcium Potassium Iodine Chromium Copper Manganese Ashwagandha Rhodiola
		Berberine Curcumin Turmeric Quercetin Resveratrol Melatonin Taurine Glycine Glutamine Carnitine Creatine Lysine Arginine
		Tyrosine Theanine GABA Inositol Choline Biotin Folate Niacin Riboflavin Thiamine Pyridoxine Cobalamin Collagen Elderberry
		Echinacea Ginseng Ginkgo Valerian Chamomile Lavender Peppermint Ginger Boswellia Bromelain Papain Lactobacillus
		Bifidobacterium Saccharomyces Spirulina Chlorella Astragalus Reishi Cordyceps Shiitake Maitake Silymarin Dandelion Nettle`)
	forms = strings.Fields(`Glycinate Citrate Picolinate Malate Threonate Taurate Chelate Complex Extract Balance Support Defense
		Forte Liposomal Sustained Buffered Essentials Synergy Advanced Concentrate Phytosome Active Gentle Daily Restore Renewal`)
	shapes    = strings.Fields("capsules tablets powder liquid gummies softgels lozenges drops packets strips")
	syllables = strings.Fields("al ber cor dan el fen gor hal ist jun kel lor mar nor oak pel quin ros sol tan ul ver wil yar zen")
)

// Products returns n products with different names. The result depends only on n. Most names
// consist of a substance, a form, a product line, an amount and a shape. A third of them also
// begin with a second substance. Each product has one of n/100 brands (at least 1) and two
// sizes.
func Products(n int) []catalogsync.Record {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	any := func(of []string) string { return of[random.IntN(len(of))] }
	brands := make([]catalog.BrandSummary, max(1, n/100))
	for i := range brands {
		brands[i] = catalog.BrandSummary{
			ID: fmt.Sprintf("brand-%d", i), Name: title(any(syllables) + any(syllables) + any(syllables) + " labs"), Prefix: fmt.Sprintf("%c%c%c", 'A'+i/676%26, 'A'+i/26%26, 'A'+i%26),
		}
	}
	lines := make([]string, max(50, n/50)) // made-up words, as manufacturers use them
	for i := range lines {
		lines[i] = title(any(syllables) + any(syllables) + any(syllables) + any(syllables))
	}
	entries, taken := make([]catalogsync.Record, 0, n), map[string]bool{}
	for i := 0; len(entries) < n; i++ {
		name := strings.Join([]string{any(substances), any(forms), any(lines), fmt.Sprint(50 * (1 + random.IntN(40))), any(shapes)}, " ")
		if random.IntN(3) == 0 {
			name = any(substances) + " " + name
		}
		if taken[name] {
			continue
		}
		taken[name] = true
		brand := brands[random.IntN(len(brands))]
		p := catalog.Product{ID: fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i), Name: name, Status: catalog.StatusAvailable, Brand: brand}
		for _, size := range []int{60, 120} {
			p.Variants = append(p.Variants, catalog.Variant{
				ID: fmt.Sprintf("%08x-0000-4000-9000-%012x", i, size), SKU: fmt.Sprintf("%s-%06d-%d", brand.Prefix, i, size),
				UPC: fmt.Sprintf("0%011d", i*1_000+size), Status: catalog.StatusAvailable, Primary: size == 60,
			})
		}
		entries = append(entries, catalogsync.Record{
			Product: p, Attributes: catalogsync.Attributes{
				IngredientIDs: []string{fmt.Sprintf("ingredient-%d", i%len(substances))}, AllergenIDs: []string{fmt.Sprintf("allergen-%d", i%7)},
			},
		})
	}
	return entries
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Query is the text that a user types to find one product.
type Query struct {
	Kind, Text, ProductID string
}

// The kinds of queries.
const (
	Beginnings   = "beginnings"
	TypingError  = "typing error"
	AnotherOrder = "another order"
	PartOfACode  = "part of a code"
)

// enough is the number of matching products at which a query is specific enough.
const enough = 5

// Queries returns n queries for random products, with the four kinds in turn: beginnings of
// words from the name and the brand, words with a typing error, words in another order, and a
// SKU, a UPC or a part of one. Words are added until at most five products match them, or
// until all words of the product are used.
func Queries(entries []catalogsync.Record, n int) []Query {
	random := rand.New(rand.NewPCG(2, uint64(n)))
	products := make([][]string, len(entries)) // by product, its words
	for i, e := range entries {
		products[i] = strings.Fields(strings.ToLower(e.Product.Name + " " + e.Product.Brand.Name))
	}
	queries := make([]Query, n)
	for i := range queries {
		number := random.IntN(len(entries))
		product := entries[number].Product
		q := Query{Kind: [...]string{Beginnings, TypingError, AnotherOrder, PartOfACode}[i%4], ProductID: product.ID}
		if q.Kind == PartOfACode {
			q.Text = partOfACode(product, random)
		} else {
			q.Text = strings.Join(typed(products, number, q.Kind, random), " ")
		}
		queries[i] = q
	}
	return queries
}

// typed returns the words that a user types to find a product.
func typed(products [][]string, number int, kind string, random *rand.Rand) []string {
	words := slices.Clone(products[number])
	chosen, alike := []int{}, products // alike are the products with all chosen words
	for _, at := range random.Perm(len(words)) {
		if kind == Beginnings && lettersOnly(words[at]) {
			words[at] = words[at][:3+random.IntN(len(words[at])-2)]
		}
		chosen = append(chosen, at)
		if alike = beginning(alike, words[at]); len(alike) <= enough {
			break
		}
	}
	if len(alike) > enough {
		words = products[number]
	}
	if kind != AnotherOrder {
		slices.Sort(chosen)
	}
	text := make([]string, len(chosen))
	for i, at := range chosen {
		text[i] = words[at]
	}
	if kind == TypingError {
		at := slices.IndexFunc(text, lettersOnly)
		if at < 0 {
			at, text = 0, slices.Insert(text, 0, words[0])
		}
		text[at] = mistype(text[at], random)
	}
	return text
}

// beginning returns the products with a word that begins with text.
func beginning(products [][]string, text string) (found [][]string) {
	for _, words := range products {
		if slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, text) }) {
			found = append(found, words)
		}
	}
	return found
}

// lettersOnly reports whether a word may be cut or mistyped. Numbers may not. All words of
// letters have at least four letters.
func lettersOnly(word string) bool { return !strings.ContainsFunc(word, unicode.IsDigit) }

// mistype removes, adds or replaces one letter, or swaps two neighbors.
func mistype(word string, random *rand.Rand) string {
	for {
		wrong := []byte(word)
		at, letter := random.IntN(len(word)), byte('a'+random.IntN(26))
		switch random.IntN(4) {
		case 0:
			wrong = slices.Delete(wrong, at, at+1)
		case 1:
			wrong = slices.Insert(wrong, at, letter)
		case 2:
			wrong[at] = letter
		default:
			next := min(at+1, len(wrong)-1)
			wrong[at], wrong[next] = wrong[next], wrong[at]
		}
		if string(wrong) != word {
			return string(wrong)
		}
	}
}

func partOfACode(p catalog.Product, random *rand.Rand) string {
	v := p.Variants[random.IntN(len(p.Variants))]
	_, withoutBrand, _ := strings.Cut(v.SKU, "-")
	withoutSize := v.SKU[:strings.LastIndex(v.SKU, "-")]
	return []string{v.SKU, withoutBrand, withoutSize, v.UPC, v.UPC[:10]}[random.IntN(5)]
}

// Typed returns the text after each letter of each query, as a search box sends it.
func Typed(queries []Query) (typed []string) {
	for _, q := range queries {
		for end := range len(q.Text) {
			typed = append(typed, q.Text[:end+1])
		}
	}
	return typed
}

// Measure calls search with the texts of typed, and reports the median and the 99th percentile
// in microseconds. It counts the fastest of three runs of each search, to exclude other
// processes.
func Measure(b *testing.B, typed []string, search func(string)) {
	b.Helper()
	took := make([]time.Duration, 0, 1_000)
	for i := 0; b.Loop(); i++ {
		best := time.Hour
		for range 3 {
			start := time.Now()
			search(typed[i*31%len(typed)])
			best = min(best, time.Since(start))
		}
		took = append(took, best)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op") // removed, because it would cover all three runs
}

// InUse returns the size of all reachable memory in bytes.
func InUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
