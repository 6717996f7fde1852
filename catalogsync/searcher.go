// Package catalogsync keeps a copy of the platform's catalog beside your own data, and
// searches it in memory. A search sends no request and is fast enough for every letter that a
// user types.
//
//	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store})
//	router.OnProductUpdated(syncer.HandleEvent)           // and the other product events
//	err = syncer.Run(ctx)                                 // reads the list every hour, and products with events
//	records, err := store.Changes(ctx, revision, 1000)    // later changes, for your own tables
//
//	var searcher catalogsync.Searcher
//	err = searcher.Load(ctx, store)                       // and again, for example every minute
//	result, err := searcher.Search(catalogsync.SearchOptions{Query: "magn glyc"})
//	mux.Handle("GET /products", searcher.Handler(catalogsync.HandlerConfig{}))  // GET /products?q=magn+glyc
//	variant, err := client.Catalog.Variants.Get(ctx, id)  // before it is prescribed
//
// # The copy
//
// A [Syncer] stores every product in a [catalogstore.Store]. Package sqlstore implements one
// for SQLite and PostgreSQL. With [NewMemoryStore], your program reads the whole list again
// after each start.
//
// The record of a product has its content and its presence in the list. A product becomes
// missing if a walk over the whole list does not see it. It is gone only if the next walk does
// not see it either and the platform does not have its id. A list that changes while it is
// read therefore deletes nothing.
//
// # Search
//
// A [Searcher] has an index of the whole catalog. Searches continue in the old index while
// [Searcher.Load] builds the next one. A result is as old as the index ([Result.Age]). A
// variant may have been discontinued since, so read it again before use.
//
// The catalog contains the products of all brands, including those that a clinic may not
// order. By default, a search finds all of them. [SearchOptions].Permitted limits it to the
// brands of a clinic, which a [BrandCache] reads from the platform. The [Result] reports
// whether the limit was applied, and the age of the brands.
//
// # Privacy
//
// The catalog contains no patient data.
//
// API section: "Catalog".
package catalogsync

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/sentinel"
)

// ErrNotLoaded is the error of a search if the searcher has no index yet.
var ErrNotLoaded = sentinel.New("catalogsync: the catalog is not loaded yet", api.Problem{
	Status: http.StatusServiceUnavailable, Title: "The catalog is not ready yet. Please try again in a few minutes.",
})

// Searcher searches an index of the catalog. The zero value has no index. It is safe for
// concurrent use.
type Searcher struct {
	current atomic.Pointer[index]

	loading  sync.Mutex
	revision int64 // of the store, for current
}

// Search finds products in the index of the last [Searcher.Load]. If fewer products than Limit
// match, Search allows one typing error in each word of four letters or more: one wrong,
// missing or extra letter, or two swapped neighbors. It allows no error in words with digits,
// because 1000 is not 2000.
//
// Search fails with an [*api.ArgumentError] for "query", "limit" or "filters", or with
// [ErrNotLoaded] before the first Load.
func (s *Searcher) Search(o SearchOptions) (Result, error) {
	index := s.current.Load()
	if index == nil {
		return Result{}, ErrNotLoaded
	}
	return index.search(o)
}

// Load builds an index of all records of store that are not gone, and replaces the current
// index. Results count their age from the start of the store's last complete walk, or of the
// newest walk if none is complete. If no record has changed since the last call, Load only
// updates this time, so you can call it often. Always use the same store.
//
// It fails with [ErrNotLoaded] before a walk has stored its first page, or with an error of
// the store.
func (s *Searcher) Load(ctx context.Context, store catalogstore.Store) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	state, err := store.State(ctx)
	if err != nil {
		return err
	}
	walk := state.Complete
	if walk.Generation == 0 {
		walk = state.Newest
	}
	if walk.Page == 0 {
		return ErrNotLoaded
	}
	next := s.current.Load()
	if next == nil || s.revision != state.Revision {
		if next, err = newIndex(ctx, store, walk.StartedAt); err != nil {
			return err
		}
	} else if !next.asOf.Equal(walk.StartedAt) {
		next = next.at(walk.StartedAt)
	}
	s.current.Store(next)
	s.revision = state.Revision
	return nil
}
