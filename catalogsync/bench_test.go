package catalogsync_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogtest"
)

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

// BenchmarkLoad builds an index and reports its size in megabytes.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{20_000, 200_000} {
		entries := catalogtest.Products(n)
		b.Run(fmt.Sprintf("%d products", n), func(b *testing.B) {
			var x *catalogsync.Searcher
			store := storeOf(b, entries...)
			before := catalogtest.InUse()
			for b.Loop() {
				x = loaded(b, store)
			}
			b.ReportMetric(float64(catalogtest.InUse()-before)/1e6, "MB")
			runtime.KeepAlive(x)
		})
	}
}
