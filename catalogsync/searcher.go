// Package catalogsync keeps the platform's catalog beside your own data, and searches it in
// memory, fast enough for every letter that a person types, without a request to the platform.
//
//	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store})
//	router.OnProductUpdated(syncer.HandleEvent)           // and the other product events
//	err = syncer.Run(ctx)                                 // reads the list every hour, and what events are about
//	records, err := store.Changes(ctx, revision, 1000)    // what has changed since, for your own tables
//
// A [catalogstore.Store] has every product with its content, and says whether the list still has
// it. Package sqlstore has one on SQLite and PostgreSQL; [NewMemoryStore] reads the whole list
// again after each start of the program. A product is missing once a walk over the whole list
// has not seen it, and gone only when the next one has not either and the platform does not have
// it by its id: a list that shifts while it is read deletes nothing.
//
//	var searcher catalogsync.Searcher
//	err = searcher.Load(ctx, store)                       // and again, for example every minute
//	result, err := searcher.Search(catalogsync.SearchOptions{Query: "magn glyc"})
//	mux.Handle("GET /products", searcher.Handler(catalogsync.HandlerConfig{}))  // GET /products?q=magn+glyc
//	variant, err := client.Catalog.Variants.Get(ctx, id)  // before it is prescribed
//
// A [Searcher] has an index of the whole catalog. While [Searcher.Load] makes the next one,
// searches go on in it. What is found is as old as the index ([Result.Age]), and a variant may
// be discontinued since: read it again.
//
// The catalog has the products of all brands, also of those that a clinic may not order. By
// default they are all found. [SearchOptions].Permitted keeps to the brands of a clinic, which
// a [BrandCache] learns from the platform; a [Result] says whether that was done, and how old
// it is. Nothing about patients is in the catalog.
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

// ErrNotLoaded is what a search returns before there is an index.
var ErrNotLoaded = sentinel.New("catalogsync: the catalog is not loaded yet", api.Problem{
	Status: http.StatusServiceUnavailable, Title: "The catalog is not ready yet. Please try again in a few minutes.",
})

// Searcher searches an index of a catalog. The zero value has none. It is safe for concurrent
// use.
type Searcher struct {
	current atomic.Pointer[index]

	loading  sync.Mutex
	revision int64 // of the store, that current has
}

// Search finds products in the index of the last [Searcher.Load]. Words of four letters or more
// may have one letter that is wrong, missing, or too many, or two neighbours in the wrong order,
// if fewer products than wanted match without; words with digits may not, because 1000 is not
// 2000. An error is an [*api.ArgumentError] for "query", "limit" or "filters", or [ErrNotLoaded]
// before there is an index.
func (s *Searcher) Search(o SearchOptions) (Result, error) {
	index := s.current.Load()
	if index == nil {
		return Result{}, ErrNotLoaded
	}
	return index.search(o)
}

// Load makes an index of all records of a store that are not gone, and makes it the current
// one. Results count their age from the start of the store's last complete walk, or of the
// newest if none is complete. If no record has changed since the last call, Load moves this
// time only, so call it often, for one store. Before the first walk has stored a page the error
// is [ErrNotLoaded]. Other errors are those of the store.
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
