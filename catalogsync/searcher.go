// Package catalogsync keeps the platform's catalog beside your own data, and searches it in
// memory, fast enough for every letter that a person types, without a request to the platform.
//
//	syncer, err := catalogsync.NewSyncer(catalogsync.SyncerConfig{Catalog: client.Catalog, Store: store})
//	router.OnProductUpdated(syncer.HandleEvent)           // and the other product events
//	err = syncer.Run(ctx)                                 // reads the list every hour, and what events are about
//	records, err := store.Changes(ctx, revision, 1000)    // what has changed since, for your own tables
//
// A [Store] has every product with its content, and says whether the list still has it. Package
// sqlstore has one on SQLite and PostgreSQL; [NewMemoryStore] reads the whole list again after
// each start of the program. A product is missing once a walk over the whole list has not seen it, and gone only when the next one has not
// either and the platform does not have it by its id: a list that shifts while it is read
// deletes nothing.
//
//	var searcher catalogsync.Searcher
//	err = searcher.Load(ctx, store)                       // and again, for example every minute
//	result, err := searcher.Search(catalogsync.SearchOptions{Query: "magn glyc"})
//	mux.Handle("GET /products", searcher.Handler(catalogsync.HandlerConfig{}))  // GET /products?q=magn+glyc
//	variant, err := client.Catalog.Variants.Get(ctx, id)  // before it is prescribed
//
// An [Index] is made of a whole catalog and never changes. A [Searcher] has the current
// one: while the next is made, searches go on in it. What is found is as old as its index
// ([Result.Age]), and a variant may be discontinued since: read it again.
//
// The catalog has the products of all brands, also of those that a clinic may not order. By
// default they are all found. [SearchOptions].Permitted keeps to the brands of a clinic, which
// a [BrandCache] learns from the platform; a [Result] says whether that was done, and how old
// it is. Nothing about patients is in the catalog.
//
// API section: "Catalog".
package catalogsync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dispensary-go/dispensary/api"
)

// ErrNotLoaded is what a search returns before there is an index.
var ErrNotLoaded = errors.New("catalogsync: the catalog is not loaded yet")

// Searcher searches the current index, and replaces it. The zero value has none. It is safe
// for concurrent use.
type Searcher struct {
	current atomic.Pointer[Index]

	loading  sync.Mutex
	stored   *Index // made of the store's records up to a revision
	revision int64
}

// Format prints the type only.
func (s *Searcher) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "catalogsync.Searcher") }

// Search finds products in the current index: see [Index.Search]. Before there is one the
// error is [ErrNotLoaded].
func (s *Searcher) Search(o SearchOptions) (Result, error) {
	index := s.current.Load()
	if index == nil {
		return Result{}, ErrNotLoaded
	}
	return index.Search(o)
}

// Swap makes an index the current one, and returns the one before, nil if there was none.
// It is for an index of your own copy of the catalog.
func (s *Searcher) Swap(index *Index) (before *Index) { return s.current.Swap(index) }

// Load makes an index of all records of a store that are not gone, and makes it the current
// one. Results count their age from the start of the store's last complete walk, or of the
// newest if none is complete. If no record has changed since the last call, Load moves this
// time only, so call it often, for one store. Before the first walk has stored a page the error
// is [ErrNotLoaded]. Other errors are those of the store.
func (s *Searcher) Load(ctx context.Context, store Store) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	state, err := store.State(ctx)
	if err != nil {
		return err
	}
	asOf, err := state.asOf()
	if err != nil {
		return err
	}
	if s.stored == nil || s.revision != state.Revision {
		index, err := indexOf(ctx, store, asOf)
		if err != nil {
			return err
		}
		s.stored, s.revision = index, state.Revision
	}
	if !s.stored.asOf.Equal(asOf) {
		s.stored = s.stored.at(asOf)
	}
	s.current.Store(s.stored)
	return nil
}

// ReadIndex makes an index of all records of a store that are not gone, for a program that
// searches once. [Searcher.Load] keeps one up to date, and has the same errors.
func ReadIndex(ctx context.Context, store Store) (*Index, error) {
	if store == nil {
		return nil, &api.ArgumentError{Field: "store", Reason: "is nil"}
	}
	state, err := store.State(ctx)
	if err != nil {
		return nil, err
	}
	asOf, err := state.asOf()
	if err != nil {
		return nil, err
	}
	return indexOf(ctx, store, asOf)
}

// asOf is when the last complete walk began, or the newest if none is complete.
func (s State) asOf() (time.Time, error) {
	walk := s.Complete
	if walk.Generation == 0 {
		walk = s.Newest
	}
	if walk.Page == 0 {
		return time.Time{}, ErrNotLoaded
	}
	return walk.StartedAt, nil
}

// changesPage is how many records are read of a store at a time.
const changesPage = 1000

// indexOf makes an index of what a store has. A record that changes meanwhile may come twice,
// or be gone after it came; then the store's revision is another one for the next call.
func indexOf(ctx context.Context, store Store, asOf time.Time) (*Index, error) {
	var failed error
	index, err := NewIndex(func(yield func(Entry) bool) {
		for after := int64(0); ; {
			records, err := store.Changes(ctx, after, changesPage)
			if failed = err; err != nil || len(records) == 0 {
				return
			}
			for _, r := range records {
				if r.Presence != Gone && !yield(Entry{Product: r.Product, Attributes: r.Attributes}) {
					return
				}
			}
			after = records[len(records)-1].Revision
		}
	}, IndexConfig{AsOf: asOf})
	return index, cmp.Or(failed, err)
}
