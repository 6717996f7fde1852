package catalogsync

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/dispensary-go/dispensary/api"
	"github.com/dispensary-go/dispensary/catalog"
	"github.com/dispensary-go/dispensary/catalogsync/catalogstore"
	"github.com/dispensary-go/dispensary/internal/priority"
)

// SyncerConfig is what a [Syncer] is made of. Catalog and Store are required.
type SyncerConfig struct {
	// Catalog is what is read: the Catalog of a client with a token source. All who use the
	// store see what the client's user sees, the custom dosages of a practitioner too.
	Catalog catalog.Service

	// Store is where the catalog is kept.
	Store catalogstore.Store

	// Limiter is the budget: every request of the Syncer waits for it, for example for a
	// ratelimit.Limiter. Nil means that they wait for nothing but what the client
	// itself waits for.
	Limiter api.Limiter

	// Prefetch is how many pages of the list are read at the same time, and held in memory;
	// 0 and 1 mean one after the other.
	Prefetch int

	// PageSize is how many products a page has; 0 means 100.
	PageSize int

	// Filters reads after each walk the ingredients and allergens that products can be filtered
	// by: a search for each of them. The search finds only products that the clinic may order;
	// the others have none.
	Filters bool

	// Details reads the details of all products once, one request each, when nothing else is
	// to be read. Without it they are read for events.
	Details bool

	// Interval is the time from one walk to the next in [Syncer.Run]; 0 means an
	// hour. What is in stock makes no event: it is as old as that.
	Interval time.Duration

	// OnProgress is called after each stored page by the goroutine that called Sync or Run.
	OnProgress func(Progress)

	// Logger logs failures in Run and skipped products. Nil logs nothing.
	Logger *slog.Logger
}

// ErrTooManySkipped is the error of [Syncer.Sync] if more than a fifth of the products of the
// list, and more than 10, have no usable id.
var ErrTooManySkipped = errors.New("catalogsync: too many products of the list have no usable id")

// Progress is how far a call of [Syncer.Sync] is.
type Progress struct {
	Walk   catalogstore.Walk   // as it is stored
	Counts catalogstore.Counts // of all pages that the call has read

	Pages    int           // of the list, as it said last
	Requests int           // that the call has made, for pages to come too
	Elapsed  time.Duration // since the call began
}

// Syncer keeps a copy of the catalog in a [catalogstore.Store]. It is safe for concurrent use.
// Get it from [NewSyncer].
type Syncer struct {
	config SyncerConfig
	wake   chan struct{} // has something when a request has come

	fetching  sync.Mutex        // held while products are read one by one
	postponed map[string]*retry // those that could not be read, by id
}

// NewSyncer returns a syncer that has not begun. An error is an [*api.ArgumentError] or
// [api.ArgumentErrors].
func NewSyncer(c SyncerConfig) (*Syncer, error) {
	var wrong api.ArgumentErrors
	refuse := func(field, reason string) {
		wrong = append(wrong, &api.ArgumentError{Field: "catalogsync.SyncerConfig." + field, Reason: reason})
	}
	if c.Catalog == (catalog.Service{}) {
		refuse("Catalog", "is empty")
	}
	if c.Store == nil {
		refuse("Store", "is nil")
	}
	for field, value := range map[string]int64{
		"Prefetch": int64(c.Prefetch), "PageSize": int64(c.PageSize), "Interval": int64(c.Interval),
	} {
		if value < 0 {
			refuse(field, "must not be negative")
		}
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	c.Prefetch, c.PageSize, c.Interval = max(c.Prefetch, 1), cmp.Or(c.PageSize, 100), cmp.Or(c.Interval, time.Hour)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Syncer{config: c, wake: make(chan struct{}, 1), postponed: map[string]*retry{}}, nil
}

// Sync reads the whole list once: it goes on with a walk that was interrupted less than a day
// ago, or begins the next one. Pages are stored as they come, with how far the walk is, so
// that a Sync that ends in any way, that of its process too, is continued by the next one.
//
// The list may change meanwhile. Where it has become shorter from one page to the next a
// product may have slipped between them, and the pages there are read again. A product that
// the walk has not seen all the same is missing, and is found by the next walk. One that two
// walks have not seen is read by its id: it is gone if the platform does not have it. For all
// of that Sync makes at most a tenth more requests than the list has pages, or ten: what is
// left stays missing until a later walk.
//
// A product without an id, or one that cannot be stored otherwise, is logged and skipped:
// [catalogstore.Walk].Skipped. A stored product that the list shows in this way becomes missing, as it is
// not recognized, but is gone only if the platform does not have it by its id.
//
// Errors:
//
//   - [catalogstore.ErrSyncing]: another call reads the list.
//   - [*api.IncompleteListError]: the list ended before its own count of products. The next
//     Sync continues there.
//   - [ErrTooManySkipped]: the walk changes no presence. The next Sync reads the whole list.
//   - Errors of the store and of the API.
//
// Sync returns the walk as far as it came, also with an error.
// API section: GET /catalog/products, GET /catalog/products/<id>.
func (s *Syncer) Sync(ctx context.Context) (walk catalogstore.Walk, err error) {
	ctx = priority.WithDefault(ctx, api.PriorityCatalog)
	unlock, err := s.config.Store.Lock(ctx)
	if err != nil {
		return catalogstore.Walk{}, err
	}
	defer func() { err = cmp.Or(err, unlock()) }()
	w := walker{Syncer: s, startedAt: time.Now(), pages: map[int]chan listedPage{}}
	if err = w.run(ctx); err == nil {
		err = s.readAttributes(ctx)
	}
	return w.walk, err
}

// wait waits for the budget. What is read then begins to be read at the time it returns.
func (s *Syncer) wait(ctx context.Context) (readAt time.Time, err error) {
	if s.config.Limiter != nil {
		err = s.config.Limiter.Wait(ctx)
	}
	return time.Now(), cmp.Or(err, ctx.Err())
}

// readAttributes stores the ingredients and allergens of products, as configured. It logs and
// skips one without an id.
func (s *Syncer) readAttributes(ctx context.Context) error {
	if !s.config.Filters {
		return nil
	}
	all, c := map[string]catalogstore.Attributes{}, s.config.Catalog
	wait := func() error {
		_, err := s.wait(ctx)
		return err
	}
	search := func(id string, o catalog.ProductSearchOptions, add func(*catalogstore.Attributes)) error {
		if id == "" { // the search would find every product
			s.config.Logger.LogAttrs(ctx, slog.LevelWarn, "an attribute of products was skipped", slog.String("reason", "no id"))
			return nil
		}
		return each(c.Products.Search(o).Pages(ctx), wait, func(p catalog.Product) error {
			a := all[p.ID]
			add(&a)
			all[p.ID] = a
			return nil
		})
	}
	err := each(c.Ingredients.List().Pages(ctx), wait, func(i catalog.Ingredient) error {
		return search(i.ID, catalog.ProductSearchOptions{IngredientIDs: []string{i.ID}}, func(a *catalogstore.Attributes) { a.IngredientIDs = append(a.IngredientIDs, i.ID) })
	})
	if err != nil {
		return err
	}
	err = each(c.Allergens.List().Pages(ctx), wait, func(i catalog.Allergen) error {
		return search(i.ID, catalog.ProductSearchOptions{AllergenIDs: []string{i.ID}}, func(a *catalogstore.Attributes) { a.AllergenIDs = append(a.AllergenIDs, i.ID) })
	})
	if err != nil {
		return err
	}
	return s.config.Store.SaveAttributes(ctx, all)
}

// each calls a function for each item of a list, and waits before each of its requests.
func each[T any](pages iter.Seq2[*api.Page[T], error], wait func() error, use func(T) error) error {
	if err := wait(); err != nil {
		return err
	}
	for page, err := range pages {
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := use(item); err != nil {
				return err
			}
		}
		if page.Meta.NextPage != 0 {
			if err := wait(); err != nil {
				return err
			}
		}
	}
	return nil
}
