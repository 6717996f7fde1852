package sqlstore_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/sqlstore"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
	"github.com/dispensary-go/dispensary/internal/testkit/catalogtest"
)

const (
	benchPrefetch = 8
	benchPageSize = 100
)

// bench is a platform in memory, and what a sync of it is beside: the walk of the client
// alone, and the bare insert of the same documents.
type bench struct {
	products int
	catalog  catalog.Service
	pages    [][]catalog.Product
}

func newBench(b *testing.B, products int) *bench {
	platform := dispensarytest.New(b, dispensarytest.WithInMemory(), dispensarytest.WithJournalLimit(1),
		dispensarytest.WithWorldSize(model.WorldSize{Products: products}))
	x := &bench{catalog: platform.Client(model.User{}).Catalog}
	x.walk(b, func(page []catalog.Product) { x.pages, x.products = append(x.pages, page), x.products+len(page) })
	return x
}

// BenchmarkSync syncs 20,000 products into an empty database, and again when nothing has
// changed. In turns with it run its floors. It reports products a second of all, and how much
// longer than both floors, one after the other, the first sync takes.
func BenchmarkSync(b *testing.B) {
	x := newBench(b, 20_000)
	for _, dialect := range []sqlstore.Dialect{sqlstore.SQLite, sqlstore.PostgreSQL} {
		b.Run(string(dialect), func(b *testing.B) { x.measure(b, dialect) })
	}
}

func (x *bench) measure(b *testing.B, dialect sqlstore.Dialect) {
	var client, bare, first, again time.Duration
	for b.Loop() {
		client += took(func() { x.walk(b, func([]catalog.Product) {}) })
		bare += took(func() { x.insert(b, dialect) })
		syncer := x.syncer(b, dialect, nil)
		first += took(func() { x.sync(b, syncer) })
		again += took(func() { x.sync(b, syncer) })
	}
	for unit, time := range map[string]time.Duration{"client-products/s": client, "insert-products/s": bare, "products/s": first, "again-products/s": again} {
		b.ReportMetric(float64(x.products*b.N)/time.Seconds(), unit)
	}
	b.ReportMetric(float64(first)/float64(client+bare), "x-floors")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkSyncMemory reports the most memory that a sync keeps reachable, in megabytes, which
// does not depend on how many products there are.
func BenchmarkSyncMemory(b *testing.B) {
	for _, products := range []int{20_000, 200_000} {
		b.Run(fmt.Sprintf("%d products", products), func(b *testing.B) {
			x := newBench(b, products)
			x.pages = nil
			for b.Loop() {
				before, most := catalogtest.InUse(), int64(0)
				x.sync(b, x.syncer(b, sqlstore.SQLite, func(p catalogsync.Progress) {
					if p.Read%50 == 0 {
						most = max(most, catalogtest.InUse()-before)
					}
				}))
				b.ReportMetric(float64(most)/1e6, "MB")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func (x *bench) walk(b *testing.B, page func([]catalog.Product)) {
	b.Helper()
	paging := api.Paging{Prefetch: benchPrefetch, PageSize: benchPageSize}
	for p, err := range x.catalog.Products.Pages(b.Context(), catalog.ProductListOptions{Paging: paging}) {
		require.NoError(b, err)
		page(p.Items)
	}
}

// insert stores the documents as one writes it by hand: a transaction for each page, and
// nothing to compare the next walk with.
func (x *bench) insert(b *testing.B, dialect sqlstore.Dialect) {
	b.Helper()
	d := newDatabase(b, dialect)
	db := d.open(b)
	_, err := db.ExecContext(b.Context(), "CREATE TABLE products (id TEXT PRIMARY KEY, document TEXT)")
	require.NoError(b, err)
	for _, page := range x.pages {
		tx, err := db.BeginTx(b.Context(), nil)
		require.NoError(b, err)
		insert, err := tx.Prepare("INSERT INTO products (id, document) VALUES ($1, $2)")
		require.NoError(b, err)
		for _, p := range page {
			document, err := json.Marshal(p)
			require.NoError(b, err)
			_, err = insert.Exec(p.ID, string(document))
			require.NoError(b, err)
		}
		require.NoError(b, tx.Commit())
	}
}

func (x *bench) syncer(b *testing.B, dialect sqlstore.Dialect, onProgress func(catalogsync.Progress)) *catalogsync.Syncer {
	b.Helper()
	d := newDatabase(b, dialect)
	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{
		Catalog: x.catalog, Store: d.store(b, d.migrated(b)), Prefetch: benchPrefetch, PageSize: benchPageSize, OnProgress: onProgress,
	})
	require.NoError(b, err)
	return syncer
}

func (x *bench) sync(b *testing.B, syncer *catalogsync.Syncer) {
	b.Helper()
	walk, err := syncer.Sync(b.Context())
	require.NoError(b, err)
	require.Equal(b, x.products, walk.Total)
}

func took(run func()) time.Duration {
	began := time.Now()
	run()
	return time.Since(began)
}
