package catalogsync_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/dispensarytest"
	"github.com/dispensary-go/dispensary/dispensarytest/model"
)

// fixture is a platform and a store with its catalog.
type fixture struct {
	platform *dispensarytest.Server
	store    catalogstore.Store
	syncer   *catalogsync.Syncer
}

func newFixture(t *testing.T, c catalogsync.SyncerConfig) *fixture {
	t.Helper()
	f := &fixture{platform: dispensarytest.New(t, dispensarytest.WithInMemory()), store: catalogsync.NewMemoryStore()}
	c.Catalog, c.Store = f.platform.Client(model.User{}).Catalog, f.store
	var err error
	f.syncer, err = catalogsync.NewSyncer(c)
	require.NoError(t, err)
	return f
}

func (f *fixture) sync(t *testing.T) catalogstore.Walk {
	t.Helper()
	walk, err := f.syncer.Sync(t.Context())
	require.NoError(t, err)
	return walk
}

func (f *fixture) records(t *testing.T) map[string]catalogstore.Record {
	t.Helper()
	records, err := f.store.Changes(context.WithoutCancel(t.Context()), 0, 1_000_000)
	require.NoError(t, err)
	byID := map[string]catalogstore.Record{}
	for _, r := range records {
		byID[r.Product.ID] = r
	}
	return byID
}

func TestSyncStoresWholeCatalog(t *testing.T) {
	t.Parallel()
	var seen []catalogsync.Progress
	f := newFixture(t, catalogsync.SyncerConfig{PageSize: 7, Prefetch: 3, Filters: true, OnProgress: func(p catalogsync.Progress) { seen = append(seen, p) }})
	walk := f.sync(t)
	products := f.platform.Products.All()
	pages := (len(products) + 6) / 7
	assert.EqualValues(t, 1, walk.Generation)
	assert.Equal(t, pages, walk.Page)
	assert.Equal(t, pages, walk.Requests)
	assert.Equal(t, len(products), walk.Total)
	assert.False(t, walk.CompletedAt.IsZero())
	require.Len(t, seen, pages)
	last := seen[pages-1]
	assert.Equal(t, catalogstore.Counts{Created: len(products)}, last.Counts)
	assert.Equal(t, pages, last.Pages)
	records := f.records(t)
	assert.Len(t, records, len(products))
	attributed := 0
	for _, p := range products {
		r := records[p.ID]
		assert.Equal(t, p.Name, r.Product.Name)
		assert.Equal(t, catalogstore.PresencePresent, r.Presence)
		if len(r.IngredientIDs) > 0 { // a search finds only permitted products
			assert.ElementsMatch(t, p.IngredientIDs, r.IngredientIDs, p.Name)
			assert.ElementsMatch(t, p.AllergenIDs, r.AllergenIDs, p.Name)
			attributed++
		}
	}
	assert.Greater(t, attributed, len(products)/2)

	revision := last.Walk
	walk = f.sync(t)
	assert.EqualValues(t, 2, walk.Generation)
	assert.NotEqual(t, revision, walk)
	assert.Equal(t, records, f.recordsRead(t, records), "only the read times changed")
}

func TestSyncReportsFailedAttributes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, catalogsync.SyncerConfig{Filters: true})
	for _, operation := range []string{"products.search", "ingredients.list", "allergens.list"} {
		f.platform.Fault(model.Fault{Effect: model.EffectErrorStatus, Status: http.StatusForbidden, Operation: operation, Times: 1})
		_, err := f.syncer.Sync(t.Context())
		require.ErrorAs(t, err, new(*api.Error), operation)
	}
}

// recordsRead returns the records with the read times of others.
func (f *fixture) recordsRead(t *testing.T, others map[string]catalogstore.Record) map[string]catalogstore.Record {
	t.Helper()
	records := f.records(t)
	for id, r := range records {
		r.ReadAt, r.DetailsAt = others[id].ReadAt, others[id].DetailsAt
		records[id] = r
	}
	return records
}
