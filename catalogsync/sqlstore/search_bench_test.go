package sqlstore_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/catalogtest"
)

// searchEngine is a way to search. One whose index is in a file says how large that is, in bytes.
type searchEngine struct {
	name  string
	index func(b *testing.B, entries []catalogsync.Entry) (search func(string) ([]string, error), file int64)
}

// BenchmarkTypeahead types queries letter by letter, into the index of package catalogsync and
// into what there is in the database anyway. Of each engine it reports the median and
// the 99th percentile of a search; how many of the whole queries in a thousand have the wanted
// product among the first five; how long the index took to make; and how large it is, in
// memory, or for SQLite in its file.
func BenchmarkTypeahead(b *testing.B) {
	for _, size := range []struct {
		products int
		engines  []searchEngine
	}{
		{20_000, []searchEngine{{"catalogsync", newIndex}, {"SQLite FTS5", newFTS5}}},
		{200_000, []searchEngine{{"catalogsync", newIndex}}},
	} {
		entries := catalogtest.Products(size.products)
		queries := catalogtest.Queries(entries, 200)
		for _, e := range size.engines {
			b.Run(fmt.Sprintf("%d products/%s", size.products, e.name), func(b *testing.B) {
				before := catalogtest.InUse()
				start := time.Now()
				search, size := e.index(b, entries)
				took := time.Since(start)
				if size == 0 {
					size = catalogtest.InUse() - before
				}
				found := 0
				for _, q := range queries {
					ids, err := search(q.Text)
					require.NoError(b, err)
					if slices.Contains(ids, q.ProductID) {
						found++
					}
				}
				catalogtest.Measure(b, catalogtest.Typed(queries), func(query string) {
					if _, err := search(query); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(float64(found)*1000/float64(len(queries)), "found/1000")
				b.ReportMetric(float64(took.Milliseconds()), "index-ms")
				b.ReportMetric(float64(size)/1e6, "MB")
			})
		}
	}
}

func newIndex(b *testing.B, entries []catalogsync.Entry) (func(string) ([]string, error), int64) {
	b.Helper()
	x, err := catalogsync.NewIndex(slices.Values(entries), catalogsync.IndexConfig{AsOf: time.Now()})
	require.NoError(b, err)
	return func(query string) (ids []string, err error) {
		result, err := x.Search(catalogsync.SearchOptions{Query: query, Limit: 5})
		for _, hit := range result.Hits {
			ids = append(ids, hit.ProductID)
		}
		return ids, err
	}, 0
}

// newFTS5 is full-text search in SQLite, with an index of prefixes, ranked with bm25. It
// forgives no typing error.
func newFTS5(b *testing.B, entries []catalogsync.Entry) (func(string) ([]string, error), int64) {
	b.Helper()
	file := filepath.Join(b.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(b.Context(), `CREATE VIRTUAL TABLE products USING fts5(id UNINDEXED, name, brand, codes, prefix='1 2 3 4', tokenize='unicode61 remove_diacritics 2')`)
	require.NoError(b, err)
	tx, err := db.BeginTx(b.Context(), nil)
	require.NoError(b, err)
	for _, e := range entries {
		_, err := tx.ExecContext(b.Context(), "INSERT INTO products VALUES (?, ?, ?, ?)", e.Product.ID, e.Product.Name, e.Product.Brand.Name, strings.Join(codes(e), " "))
		require.NoError(b, err)
	}
	require.NoError(b, tx.Commit())
	kept, err := os.Stat(file)
	require.NoError(b, err)
	statement, err := db.PrepareContext(b.Context(), "SELECT id FROM products WHERE products MATCH ? ORDER BY bm25(products, 0, 10, 5, 5) LIMIT 5")
	require.NoError(b, err)
	return func(query string) (ids []string, err error) {
		words := strings.FieldsFunc(query, func(r rune) bool { return r == ' ' || r == '-' })
		if len(words) == 0 {
			return nil, nil
		}
		rows, err := statement.QueryContext(b.Context(), `"`+strings.Join(words, `"* "`)+`"*`)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return nil, err
			}
			ids = append(ids, id)
		}
		return ids, rows.Err()
	}, kept.Size()
}

// codes are the SKUs and UPCs of a product.
func codes(e catalogsync.Entry) (all []string) {
	for _, v := range e.Product.Variants {
		all = append(all, v.SKU, v.UPC)
	}
	return all
}
