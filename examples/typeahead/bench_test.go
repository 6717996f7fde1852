package main

import (
	"database/sql"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/internal/catalogtest"
)

// BenchmarkTypeahead has the index beside what one would take from a shelf: full-text
// search in SQLite (FTS5, an index of prefixes, ranked with bm25), which forgives no
// typing error. It reports the median and 99th percentile over queries that are typed
// letter by letter, each the best of three, and how many of the whole queries in a
// thousand have the wanted product among the first five.
func BenchmarkTypeahead(b *testing.B) {
	entries := catalogtest.Products(20_000)
	queries := catalogtest.Queries(entries, 200)
	b.Run("catalogsync", func(b *testing.B) {
		x, err := catalogsync.NewIndex(slices.Values(entries), catalogsync.IndexConfig{AsOf: time.Now()})
		require.NoError(b, err)
		compare(b, queries, func(query string) (ids []string, err error) {
			result, err := x.Search(catalogsync.SearchOptions{Query: query, Limit: 5})
			for _, hit := range result.Hits {
				ids = append(ids, hit.ProductID)
			}
			return ids, err
		})
	})
	b.Run("SQLite FTS5", func(b *testing.B) {
		search := newFTS5(b, entries)
		compare(b, queries, search)
	})
}

func compare(b *testing.B, queries []catalogtest.Query, search func(string) ([]string, error)) {
	b.Helper()
	found, typed := 0, []string{}
	for _, q := range queries {
		ids, err := search(q.Text)
		require.NoError(b, err)
		if slices.Contains(ids, q.ProductID) {
			found++
		}
		for end := range len(q.Text) {
			typed = append(typed, q.Text[:end+1])
		}
	}
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		best := time.Hour
		for range 3 {
			start := time.Now()
			if _, err := search(typed[i*31%len(typed)]); err != nil {
				b.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		took = append(took, best)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(found)*1000/float64(len(queries)), "found/1000")
	b.ReportMetric(0, "ns/op") // of three
}

func newFTS5(b *testing.B, entries []catalogsync.Entry) func(string) ([]string, error) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "catalog.db"))
	require.NoError(b, err)
	b.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(b.Context(), `CREATE VIRTUAL TABLE products USING fts5(id UNINDEXED, name, brand, codes, prefix='1 2 3 4', tokenize='unicode61 remove_diacritics 2')`)
	require.NoError(b, err)
	tx, err := db.BeginTx(b.Context(), nil)
	require.NoError(b, err)
	for _, e := range entries {
		var codes []string
		for _, v := range e.Product.Variants {
			codes = append(codes, v.SKU, v.UPC)
		}
		_, err := tx.ExecContext(b.Context(), "INSERT INTO products VALUES (?, ?, ?, ?)", e.Product.ID, e.Product.Name, e.Product.Brand.Name, strings.Join(codes, " "))
		require.NoError(b, err)
	}
	require.NoError(b, tx.Commit())
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
	}
}
